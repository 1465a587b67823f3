"""The demo shows what it says, and notices if that does not hold."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from rich.console import Console

import tenure
from tenure.demo import __main__ as demo
from tenure.demo import receipts, story
from tenure.demo.crew import Crew, WorkerFailed, crew_of
from tenure.demo.report import Line, Played, examine
from tenure.demo.screen import Glance, Row, Screen
from tenure.demo.worker import complete

PLAYED = Played(number=4, killed="worker 2", frozen="worker 3")

COMPLETED = "jobs completed"
LOST = "jobs lost"
AGAIN = "jobs completed more than once"
KILLED = "claims taken over from the killed worker"
FROZEN = "claims taken over from the frozen worker"
REFUSED = "late writes refused"
RECEIPTS = "receipts"
TWICE = "jobs with more than one receipt"
STRANGE = "receipts not of the claim that completed the job"
LINES = [COMPLETED, LOST, AGAIN, KILLED, FROZEN, REFUSED, RECEIPTS, TWICE, STRANGE]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[tenure.Jobs]:
    """A store in which everything has happened that the demo shows: to one job each."""
    with tenure.Jobs(receipts.url_of(path, timeout=5)) as jobs:
        jobs.enqueue_many([tenure.NewJob("work", id=f"job-{n}") for n in range(PLAYED.number)])
        receipts.create(path)
        (late,) = jobs.claim(worker=PLAYED.frozen)
        jobs.claim(worker=PLAYED.killed)
        jobs.reap(worker=PLAYED.frozen)
        jobs.reap(worker=PLAYED.killed)
        for claim in jobs.claim(limit=9, worker="worker 1"):
            complete(claim, "worker 1")
        complete(late, PLAYED.frozen)
        yield jobs


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def broken(lines: list[Line]) -> list[str]:
    return [line.text for line in lines if not line.holds]


def demonstrate(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tenure.demo", *arguments]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="strict"
    )


def test_a_worker_is_killed_and_one_frozen_and_every_line_holds(tmp_path: Path) -> None:
    out, err = demonstrate(tmp_path).communicate(timeout=90)

    shown = [line for line in out.splitlines() if line.startswith("  ✓  ")]
    assert err == ""
    assert [line[5:].split("  ")[0] for line in shown] == LINES
    assert [line.split()[-1] for line in shown[:3]] == ["600", "0", "0"]
    assert "All 9 lines hold." in out
    assert "is killed with SIGKILL" in out
    assert "is refused" in out
    assert "\x1b" not in out
    assert "\r" not in out
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Have children heed Ctrl-C, even if this was started in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_interrupts")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_demo_that_is_ended_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with demonstrate(tmp_path) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "pid" in line)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)

    pids = [int(pid) for pid in line.partition("pid ")[2].split(", ")]
    assert (process.returncode, err) == (code, "")
    assert len(pids) == 4
    assert [pid for pid in pids if is_alive(pid)] == []
    assert list(tmp_path.iterdir()) == []


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_story_that_does_not_go_on_says_what_it_waits_for(jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "LONGEST", 0.0)

    with pytest.raises(story.StoryHangs, match="still waits until 90 jobs are completed"):
        story.Story(jobs, Crew(), Screen(), 600).play()


def test_a_worker_that_ends_by_itself_is_noticed_with_its_last_words(path: Path, jobs: tenure.Jobs) -> None:
    elsewhere = path.parent / "none.db"
    elsewhere.write_text("no database, " * 100)

    with crew_of(1, elsewhere) as crew, pytest.raises(WorkerFailed, match=r"ended with code 1: .*this is no SQLite"):
        story.Story(jobs, crew, Screen(), 600).play()


@pytest.mark.parametrize(("encoding", "square"), [("utf-8", "■"), ("ascii", "#")])
def test_a_terminal_shows_who_holds_how_many_jobs(encoding: str, square: str) -> None:
    terminal = TextIOWrapper(BytesIO(), encoding)
    screen = Screen(Console(file=terminal, force_terminal=True, color_system=None, width=80))
    rows = [Row(name="worker 1", fate="works", holds=5), Row(name="worker 2", fate="frozen", holds=2)]

    with screen.live():
        screen.show(Glance(completed=7, number=600, workers=rows))

    terminal.seek(0)
    shown = terminal.read()
    assert f"worker 1  works   {square * 5}" in shown
    assert f"worker 2  frozen  {square * 2}" in shown
    assert "7 of 600 completed" in shown


def test_a_store_in_which_all_of_it_happened_is_found_so(jobs: tenure.Jobs, path: Path) -> None:
    lines = examine(jobs, path, PLAYED)

    assert [line.text for line in lines] == LINES
    assert [line.number for line in lines] == [4, 0, 0, 1, 1, 1, 4, 0, 0]
    assert broken(lines) == []


@pytest.mark.parametrize(
    ("statement", "noticed"),
    [
        ("delete from receipts where job = 'job-0'", [RECEIPTS]),
        ("insert into receipts select * from receipts where job = 'job-0'", [RECEIPTS, TWICE]),
        ("insert into receipts values ('job-0', 1, 'worker 3')", [RECEIPTS, TWICE, STRANGE]),
        ("update receipts set fence = 1 where job = 'job-0'", [STRANGE]),
        ("update receipts set job = 'job-1' where job = 'job-0'", [TWICE]),
        ("update tenure_counts set number = number + 1 where event = 'completed'", [AGAIN]),
        ("delete from tenure_counts where event = 'refused'", [REFUSED]),
        ("delete from tenure_history where worker = 'worker 2'", [KILLED]),
        ("delete from tenure_history where worker = 'worker 3'", [FROZEN, REFUSED]),
    ],
)
def test_what_does_not_hold_is_noticed(jobs: tenure.Jobs, path: Path, statement: str, noticed: list[str]) -> None:
    execute(path, statement)

    assert broken(examine(jobs, path, PLAYED)) == noticed


def test_a_job_that_is_missing_is_noticed(jobs: tenure.Jobs, path: Path) -> None:
    jobs.delete("job-3")

    assert broken(examine(jobs, path, PLAYED)) == [COMPLETED, LOST, AGAIN, STRANGE]


def test_a_job_that_is_not_completed_is_noticed(jobs: tenure.Jobs, path: Path) -> None:
    jobs.enqueue("work")

    assert broken(examine(jobs, path, Played(number=5, killed="worker 2", frozen="worker 3"))) == [COMPLETED, RECEIPTS]


def test_scenes_that_did_not_happen_are_noticed(jobs: tenure.Jobs, path: Path) -> None:
    other = Played(number=4, killed="worker 8", frozen="worker 9")

    assert broken(examine(jobs, path, other)) == [KILLED, FROZEN, REFUSED]


def test_the_exit_code_says_that_a_line_does_not_hold(
    jobs: tenure.Jobs, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(path, "delete from receipts")

    code = demo.conclude(Screen(), examine(jobs, path, PLAYED))

    assert code == 1
    assert "Not as promised: 1 of 9 lines." in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["--keep"]])
def test_arguments_that_make_no_sense_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.main(arguments)

    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_sqlite_that_is_too_old_is_said_and_no_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    code = demo.main([])

    assert code == 2
    assert "a store needs 3.35.0 or newer" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / demo.FILE).write_text("mine")

    code = demo.main(["--keep", str(tmp_path)])

    assert code == 2
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / demo.FILE).read_text() == "mine"
