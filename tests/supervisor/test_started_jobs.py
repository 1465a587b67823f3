"""The ledger of a worker: what it says after the worker was killed."""

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
from tenure.worker.started_jobs import CAPACITY, PULSE_AT, Ledger, LedgerReader, new_ledger_file
from tenure.worker.status import Vitals
from tests.playing import ROOT
from tests.processes.stage import PATIENCE, until
from tests.worker.test_outage import Unreliable

WRITER = """
import sys
from tenure.worker.started_jobs import Ledger

ledger = Ledger(int(sys.argv[1]))
ledger.open("writer")
runs = [type("Stub", (), {"id": f"job {n}"})() for n in range(10)]
while True:
    for run in runs:
        ledger.begin(run)
    print("written", flush=True)
    ledger.end(runs)
"""


@dataclass(eq=False)
class Stub:
    """What the ledger looks at of a run."""

    id: str


def run_of(id: str) -> Run:
    return cast("Run", Stub(id))


def vitals_of(name: str) -> Vitals:
    return Vitals(
        name=name,
        pid=7,
        is_ready=True,
        is_stopping=False,
        is_store_failing=False,
        quiet_for=0.5,
        running=2,
        waiting=3,
        summary=Summary(completed=11, lost=1),
    )


@pytest.fixture
def file() -> Iterator[int]:
    file = new_ledger_file()
    yield file
    os.close(file)


@pytest.fixture
def ledger(file: int) -> Ledger:
    return Ledger(file)


@pytest.fixture
def reader(file: int) -> LedgerReader:
    return LedgerReader(file)


def test_what_has_begun_and_not_ended_is_started(ledger: Ledger, reader: LedgerReader) -> None:
    one, two, three = map(run_of, ("one", "two", "three"))

    for run in (one, two, three):
        ledger.begin(run)
    ledger.end([two])

    assert reader.started() == ["one", "three"]


def test_a_place_is_used_again(ledger: Ledger, reader: LedgerReader) -> None:
    for n in range(3 * CAPACITY):
        run = run_of(f"a rather long name {n}")
        ledger.begin(run)
        ledger.end([run])
    ledger.begin(run_of("short"))

    assert reader.started() == ["short"]


def test_two_runs_of_one_job_are_two(ledger: Ledger, reader: LedgerReader) -> None:
    earlier, later = run_of("job"), run_of("job")
    ledger.begin(earlier)
    ledger.begin(later)

    ledger.end([earlier])

    assert reader.started() == ["job"]


def test_what_never_began_can_be_ended(ledger: Ledger, reader: LedgerReader) -> None:
    ledger.end([run_of("buffered")])

    assert reader.started() == []


def test_the_longest_ids_and_names_fit(ledger: Ledger, reader: LedgerReader) -> None:
    longest = "\U0001f4bc" * 200

    ledger.open(longest)
    ledger.begin(run_of(longest))
    ledger.begin(run_of("next"))
    ledger.beat(vitals_of(longest))

    assert reader.name == longest
    assert reader.started() == [longest, "next"]
    assert reader.pulse is not None
    assert reader.pulse.vitals.name == longest


def test_a_ledger_that_was_full_once_does_not_know_what_was_started(ledger: Ledger, reader: LedgerReader) -> None:
    runs = [run_of(str(n)) for n in range(CAPACITY)]
    for run in runs:
        ledger.begin(run)
    was_known = reader.started()

    ledger.begin(run_of("one too many"))
    ledger.end(runs)

    assert was_known is not None
    assert len(was_known) == CAPACITY
    assert reader.started() is None


def test_a_worker_that_did_not_get_so_far_has_no_name_and_no_pulse(reader: LedgerReader) -> None:
    assert (reader.name, reader.pulse, reader.started(), reader.is_sealed) == (None, None, [], False)


def test_a_pulse_is_read_as_it_was_written(ledger: Ledger, reader: LedgerReader) -> None:
    before = ticks()
    ledger.beat(vitals_of("first, and longer"))

    ledger.beat(vitals_of("w1"))

    assert reader.pulse is not None
    assert reader.pulse.vitals == vitals_of("w1")
    assert before <= reader.pulse.at <= ticks()


def test_a_torn_pulse_is_not_taken_for_one(ledger: Ledger, reader: LedgerReader, file: int) -> None:
    ledger.beat(vitals_of("w1"))

    (byte,) = os.pread(file, 1, PULSE_AT + 20)
    os.pwrite(file, bytes([byte ^ 1]), PULSE_AT + 20)

    assert reader.pulse is None


def test_a_ledger_can_be_read_after_its_writer_was_killed(file: int, reader: LedgerReader) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file)], cwd=ROOT, stdout=subprocess.PIPE, pass_fds=(file,)
    )
    assert writer.stdout is not None
    for _ in range(100):
        writer.stdout.readline()

    writer.send_signal(signal.SIGKILL)
    writer.communicate()

    started = reader.started()
    assert reader.name == "writer"
    assert started is not None
    assert set(started) <= {f"job {n}" for n in range(10)}
    assert len(started) == len(set(started))


def test_a_worker_notes_what_it_starts_and_not_what_waits(ledger: Ledger, reader: LedgerReader) -> None:
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
        with Worker(jobs, {"concurrency": 2}, ledger=ledger) as worker:
            until(lambda: len(reader.started() or ()) == 2)
            started, name = set(reader.started() or ()), reader.name
            gate.set()
            until(lambda: worker.summary.completed == 5)

    assert (started, name) == ({"hold", "hold_async"}, worker.name)
    assert reader.started() == []


def test_a_job_whose_end_the_store_does_not_know_counts_as_started(ledger: Ledger, reader: LedgerReader) -> None:
    store = Unreliable()
    with tenure.Jobs(store) as jobs:

        @jobs.task
        def cut_off() -> None:
            store.is_cut = True

        jobs.enqueue("cut_off", id="job")
        with Worker(jobs, {}, ledger=ledger) as worker:
            until(lambda: store.tries > 1)
            started = reader.started()
            store.is_cut = False
            until(lambda: worker.summary.completed == 1)

    assert started == ["job"]
    assert reader.started() == []


def test_the_last_pulse_says_what_the_worker_did_in_all(ledger: Ledger, reader: LedgerReader) -> None:
    with tenure.Jobs("memory://") as jobs:
        jobs.task("nothing")(lambda: None)
        jobs.enqueue_many(tenure.NewJob("nothing") for _ in range(100))
        worker = Worker(jobs, {"drain": True}, ledger=ledger)
        worker.start()
        worker.join()

    pulse = reader.pulse
    assert pulse is not None
    assert (pulse.vitals.name, pulse.vitals.pid) == (worker.name, os.getpid())
    assert (pulse.vitals.is_ready, pulse.vitals.is_stopping) == (True, True)
    assert pulse.vitals.summary == Summary(completed=100)
    assert reader.is_sealed
