"""The list of started jobs of a worker, read by the supervisor after the worker was killed."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest

import tenure
from tenure.client.keeper import ticks
from tenure.client.run import Run
from tenure.worker import Summary, Worker
from tenure.worker.started_jobs import CAPACITY, STATUS_AT, StartedJobs, StartedJobsReader, new_shared_file
from tenure.worker.status import WorkerStatus
from tests.playing import ROOT
from tests.processes.stage import PATIENCE, until
from tests.worker.test_neighbours import Locking
from tests.worker.test_outage import Unreliable

WRITER = """
import sys
from tenure.worker.started_jobs import StartedJobs

started_jobs = StartedJobs(int(sys.argv[1]))
started_jobs.write_name("writer")
runs = [type("Stub", (), {"id": f"job {n}"})() for n in range(10)]
while True:
    for run in runs:
        started_jobs.add(run)
    print("written", flush=True)
    started_jobs.remove(runs)
"""


@dataclass(eq=False)
class Stub:
    """The attribute of a run that `StartedJobs` reads."""

    id: str


def run_of(id: str) -> Run:
    return cast("Run", Stub(id))


def status_of(name: str) -> WorkerStatus:
    return WorkerStatus(
        name=name,
        pid=7,
        is_ready=True,
        is_stopping=False,
        is_store_failing=False,
        blocked_for=0.5,
        running=2,
        buffered=3,
        summary=Summary(completed=11, lost=1),
    )


@pytest.fixture
def file() -> Iterator[int]:
    file = new_shared_file()
    yield file
    os.close(file)


@pytest.fixture
def started_jobs(file: int) -> StartedJobs:
    return StartedJobs(file)


@pytest.fixture
def reader(file: int) -> StartedJobsReader:
    return StartedJobsReader(file)


def test_what_has_begun_and_not_ended_is_started(started_jobs: StartedJobs, reader: StartedJobsReader) -> None:
    one, two, three = map(run_of, ("one", "two", "three"))

    for run in (one, two, three):
        started_jobs.add(run)
    started_jobs.remove([two])

    assert reader.unfinished_entries() == ["one", "three"]


def test_a_place_is_used_again(started_jobs: StartedJobs, reader: StartedJobsReader) -> None:
    for n in range(3 * CAPACITY):
        run = run_of(f"a rather long name {n}")
        started_jobs.add(run)
        started_jobs.remove([run])
    started_jobs.add(run_of("short"))

    assert reader.unfinished_entries() == ["short"]


def test_two_runs_of_one_job_are_two(started_jobs: StartedJobs, reader: StartedJobsReader) -> None:
    earlier, later = run_of("job"), run_of("job")
    started_jobs.add(earlier)
    started_jobs.add(later)

    started_jobs.remove([earlier])

    assert reader.unfinished_entries() == ["job"]


def test_what_never_began_can_be_ended(started_jobs: StartedJobs, reader: StartedJobsReader) -> None:
    started_jobs.remove([run_of("buffered")])

    assert reader.unfinished_entries() == []


def test_the_longest_ids_and_names_fit(started_jobs: StartedJobs, reader: StartedJobsReader) -> None:
    longest = "\U0001f4bc" * 200

    started_jobs.write_name(longest)
    started_jobs.add(run_of(longest))
    started_jobs.add(run_of("next"))
    started_jobs.write_status(status_of(longest))

    assert reader.name == longest
    assert reader.unfinished_entries() == [longest, "next"]
    assert reader.last_sample is not None
    assert reader.last_sample.status.name == longest


def test_a_ledger_that_was_full_once_does_not_know_what_was_started(
    started_jobs: StartedJobs, reader: StartedJobsReader
) -> None:
    runs = [run_of(str(n)) for n in range(CAPACITY)]
    for run in runs:
        started_jobs.add(run)
    was_known = reader.unfinished_entries()

    started_jobs.add(run_of("one too many"))
    started_jobs.remove(runs)

    assert was_known is not None
    assert len(was_known) == CAPACITY
    assert reader.unfinished_entries() is None


def test_a_worker_that_did_not_get_so_far_has_no_name_and_no_pulse(reader: StartedJobsReader) -> None:
    assert (reader.name, reader.last_sample, reader.unfinished_entries(), reader.has_clean_exit) == (
        None,
        None,
        [],
        False,
    )


def test_a_pulse_is_read_as_it_was_written(started_jobs: StartedJobs, reader: StartedJobsReader) -> None:
    before = ticks()
    started_jobs.write_status(status_of("first, and longer"))

    started_jobs.write_status(status_of("w1"))

    assert reader.last_sample is not None
    assert reader.last_sample.status == status_of("w1")
    assert before <= reader.last_sample.at <= ticks()


def test_a_torn_pulse_is_not_taken_for_one(started_jobs: StartedJobs, reader: StartedJobsReader, file: int) -> None:
    started_jobs.write_status(status_of("w1"))

    (byte,) = os.pread(file, 1, STATUS_AT + 20)
    os.pwrite(file, bytes([byte ^ 1]), STATUS_AT + 20)

    assert reader.last_sample is None


def test_a_ledger_can_be_read_after_its_writer_was_killed(file: int, reader: StartedJobsReader) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file)], cwd=ROOT, stdout=subprocess.PIPE, pass_fds=(file,)
    )
    assert writer.stdout is not None
    for _ in range(100):
        writer.stdout.readline()

    writer.send_signal(signal.SIGKILL)
    writer.communicate()

    started = reader.unfinished_entries()
    assert reader.name == "writer"
    assert started is not None
    assert set(started) <= {f"job {n}" for n in range(10)}
    assert len(started) == len(set(started))


def test_a_worker_notes_what_it_starts_and_not_what_waits(started_jobs: StartedJobs, reader: StartedJobsReader) -> None:
    gate = threading.Event()
    with tenure.Jobs("memory://") as jobs:

        @jobs.task
        def hold() -> None:
            gate.wait(PATIENCE)

        @jobs.task
        async def hold_async() -> None:
            await asyncio.to_thread(gate.wait, PATIENCE)

        jobs.enqueue_many(tenure.NewJob(type, id=type) for type in ("hold", "hold_async"))
        jobs.enqueue_many(tenure.NewJob("hold", id=f"waiting {n}") for n in range(3))
        with Worker(jobs, {"concurrency": 2}, started_jobs=started_jobs) as worker:
            until(lambda: len(reader.unfinished_entries() or ()) == 2)
            started, name = set(reader.unfinished_entries() or ()), reader.name
            gate.set()
            until(lambda: worker.summary.completed == 5)

    assert (started, name) == ({"hold", "hold_async"}, worker.name)
    assert reader.unfinished_entries() == []


def test_a_job_whose_end_the_store_does_not_know_counts_as_started(
    started_jobs: StartedJobs, reader: StartedJobsReader
) -> None:
    store = Unreliable()
    with tenure.Jobs(store) as jobs:

        @jobs.task
        def cut_off() -> None:
            store.is_cut = True

        jobs.enqueue("cut_off", id="job")
        with Worker(jobs, {}, started_jobs=started_jobs) as worker:
            until(lambda: store.tries > 1)
            started = reader.unfinished_entries()
            store.is_cut = False
            until(lambda: worker.summary.completed == 1)

    assert started == ["job"]
    assert reader.unfinished_entries() == []


def test_a_job_that_is_locked_after_its_handler_has_ended_counts_no_crash(
    started_jobs: StartedJobs, reader: StartedJobsReader
) -> None:
    store = Locking()
    with tenure.Jobs(store) as jobs:
        jobs.task("work")(lambda: None)
        jobs.enqueue("work", id="job")
        store.locked = {"job"}
        with Worker(jobs, {}, started_jobs=started_jobs) as worker:
            until(lambda: store.busy_count > 1)
            started = reader.unfinished_entries()
            store.locked = set()
            until(lambda: worker.summary.completed == 1)

    assert started == []


def test_the_last_pulse_says_what_the_worker_did_in_all(started_jobs: StartedJobs, reader: StartedJobsReader) -> None:
    with tenure.Jobs("memory://") as jobs:
        jobs.task("nothing")(lambda: None)
        jobs.enqueue_many(tenure.NewJob("nothing") for _ in range(100))
        worker = Worker(jobs, {"drain": True}, started_jobs=started_jobs)
        worker.start()
        worker.join()

    pulse = reader.last_sample
    assert pulse is not None
    assert (pulse.status.name, pulse.status.pid) == (worker.name, os.getpid())
    assert (pulse.status.is_ready, pulse.status.is_stopping) == (True, True)
    assert pulse.status.summary == Summary(completed=100)
    assert reader.has_clean_exit
