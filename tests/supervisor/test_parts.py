"""Unit tests of the small classes of a supervisor."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tenure
from tenure.backends.memory import Memory
from tenure.core.operations import Heartbeat
from tenure.supervisor import deregister_dead, reap_dead, take_supervisor_link
from tenure.supervisor.child import Child, ChildStopReason, describe_exit
from tenure.supervisor.file_watcher import FileWatcher
from tenure.supervisor.memory import _resident_bytes_from_ps, resident_bytes
from tenure.supervisor.restart_backoff import MAX_DELAY, RestartBackoff
from tenure.supervisor.supervisor_link import VARIABLE
from tenure.worker.started_jobs import StartedJobsReader, new_shared_file
from tests.processes.stage import PATIENCE


def longest_of(_: float, most: float) -> float:
    return most


class Stopped(threading.Event):
    """A fake worker that is set when `stop` is called."""

    def stop(self, *, now: bool = False) -> None:
        assert not now
        self.set()

    def quiet(self) -> None: ...


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "tasks.py").touch()
    return tmp_path


def test_a_child_that_dies_early_is_waited_for_longer_each_time() -> None:
    pauses = RestartBackoff(longest_of)

    assert [pauses.delay_after(1.0) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, MAX_DELAY, MAX_DELAY]


def test_a_child_that_ran_well_is_not_waited_for_and_begins_anew() -> None:
    pauses = RestartBackoff(longest_of)
    for _ in range(5):
        pauses.delay_after(1.0)

    assert (pauses.delay_after(11.0), pauses.delay_after(1.0)) == (0.0, 0.5)


def test_children_do_not_all_come_back_at_the_same_moment() -> None:
    assert len({RestartBackoff().delay_after(1.0) for _ in range(20)}) > 1


def test_a_change_is_told_once(folder: Path) -> None:
    sources = FileWatcher([folder])
    tasks = folder / "package" / "tasks.py"

    tasks.write_text("changed")

    assert sources.poll_changes() == [tasks]
    assert sources.poll_changes() == []


def test_what_is_added_or_removed_is_a_change(folder: Path) -> None:
    sources = FileWatcher([folder])
    tasks, other = folder / "package" / "tasks.py", folder / "other.py"

    other.touch()
    tasks.unlink()

    assert sources.poll_changes() == [other, tasks]


def test_a_file_that_is_replaced_by_an_equally_old_one_of_the_same_size_is_a_change(folder: Path) -> None:
    tasks, new = folder / "package" / "tasks.py", folder / "package" / "new"
    sources = FileWatcher([folder])
    new.touch()
    os.utime(new, ns=(tasks.stat().st_atime_ns, tasks.stat().st_mtime_ns))

    new.replace(tasks)

    assert sources.poll_changes() == [tasks]


@pytest.mark.parametrize("name", [".hidden", "__pycache__", "node_modules", "site-packages", "environment"])
def test_folders_that_are_not_ones_own_source_are_passed_over(folder: Path, name: str) -> None:
    other = folder / "package" / name
    other.mkdir()
    if name == "environment":
        (other / "pyvenv.cfg").touch()
    sources = FileWatcher([folder])

    (other / "module.py").touch()
    (folder / "package" / "notes.txt").touch()

    assert sources.poll_changes() == []


def test_a_hidden_folder_that_is_named_is_looked_at(folder: Path) -> None:
    hidden = folder / ".app"
    hidden.mkdir()
    sources = FileWatcher([hidden])

    (hidden / "module.py").touch()

    assert sources.poll_changes() == [hidden / "module.py"]


def test_the_memory_of_a_process_grows_with_what_it_takes() -> None:
    before = resident_bytes(os.getpid())
    taken = b"x" * (64 << 20)
    after = resident_bytes(os.getpid())

    assert before is not None
    assert after is not None
    assert len(taken) * 0.9 < after - before < len(taken) * 2


def test_where_the_system_has_no_files_about_processes_it_is_asked() -> None:
    known, asked = resident_bytes(os.getpid()), _resident_bytes_from_ps(os.getpid())

    assert known is not None
    assert asked is None or 0.5 < asked / known < 2


def test_the_memory_of_a_process_that_is_gone_is_not_known() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert resident_bytes(gone.pid) is None


def test_two_signals_are_not_sent_so_close_that_they_arrive_as_one() -> None:
    child = Child([sys.executable, "-c", "import signal; signal.pause()"], grace=30.0, kill_margin=15.0, now=0.0)
    child.request_stop(ChildStopReason.STOP, now=True)

    sent = []
    for now in (1.0, 1.1, 1.3, 1.6):
        child.escalate_stop(now)
        sent.append(child._signals_sent)
    child._process.wait()
    child.close()

    assert sent == [1, 1, 2, 2]


def test_how_a_process_ended_is_told_in_words() -> None:
    assert [describe_exit(code) for code in (3, -9, -50)] == ["exit code 3", "SIGKILL", "signal 50"]


def test_a_process_without_a_supervisor_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    assert take_supervisor_link() is None


@pytest.mark.parametrize("value", ["", "1", "a,b", "12345,12346"])
def test_a_supervisor_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)

    with pytest.raises(tenure.ConfigurationError, match=f"{VARIABLE}='{value}' was not set.*unset it"):
        take_supervisor_link()


def test_what_a_child_has_is_for_itself_alone_and_ends_with_its_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    file = new_shared_file()
    reader = StartedJobsReader(file)
    lifeline, end = os.pipe()
    # As in a child process that inherited the pipe.
    os.set_inheritable(lifeline, True)
    monkeypatch.setenv(VARIABLE, f"{file},{lifeline}")
    worker = Stopped()

    told = take_supervisor_link()
    assert told is not None
    told.watch(worker)
    told.started_jobs.write_name("w1")
    was_stopped = worker.is_set()
    os.close(end)

    assert worker.wait(PATIENCE)
    assert not was_stopped
    assert reader.name == "w1"
    assert VARIABLE not in os.environ
    assert not os.get_inheritable(told.parent_pipe)
    os.close(told.parent_pipe)


@pytest.mark.parametrize(("started", "crashed"), [(["7"], {"7"}), ([], set()), (None, {str(n) for n in range(1_500)})])
def test_all_that_a_dead_worker_held_is_taken_back(started: list[str] | None, crashed: set[str]) -> None:
    store = Memory()
    with tenure.Jobs(store) as jobs:
        jobs.enqueue_many(tenure.NewJob("work", id=str(n)) for n in range(1_501))
        jobs.claim(limit=750, worker="dead", lease=600)
        jobs.claim(limit=750, worker="dead", lease=600)
        jobs.claim(worker="other", lease=600)
        store.beat(Heartbeat(name="dead", host="h", pid=7, version="1"), 30)

        message = json.dumps({"worker": "dead", "started": started})
        reaped = reap_dead(store, message)
        deregister_dead(store, message)

        assert jobs.workers() == []
        assert len(reaped) == 1_500
        assert {job.id for job in jobs.find() if job.crashes} == crashed
        assert [job.id for job in jobs.find(state="running")] == ["1500"]
