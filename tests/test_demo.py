"""The demo shows what it says, and notices if that does not hold."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from rich.console import Console

import tenure
from tenure.cli.demo import __main__ as demo
from tenure.cli.demo import story
from tenure.cli.demo.crew import WORKERS, Member, WorkerFailed, crew_on, url_of
from tenure.cli.demo.report import Caught, Line, Played, examine
from tenure.cli.demo.screen import Glance, Records, Row, Screen
from tenure.cli.demo.traces import WRITE, Trace, create_receipts, starts_beside, write_start
from tests.tiers import only_in_all

PATIENCE = 120.0

PLAYED = Played(
    number=5,
    killed=Caught(
        worker="killed",
        started=frozenset([Trace("job-0", 1, "killed")]),
        buffered=frozenset([Trace("job-1", 1, "killed")]),
    ),
    successor="successor",
    frozen=Caught(worker="frozen", started=frozenset([Trace("job-2", 1, "frozen")]), buffered=frozenset()),
)

COMPLETED = "jobs completed"
LOST = "jobs lost"
AGAIN = "jobs completed more than once"
STARTED = "jobs that the killed worker had started: a crash each"
BUFFERED = "jobs that it had only buffered: no crash"
FROZEN = "jobs taken over from the frozen worker: a crash each"
REFUSED = "late writes refused"
CRASHES = "crashes in all, each told in the history of its job"
REPEATED = "runs that were repeated, each told there as well"
RECEIPTS = "receipts"
TWICE = "jobs with more than one receipt"
STRANGE = "receipts not of the claim that completed the job"
SUCCESSOR = "receipts of the worker started for the killed one"
LINES = [
    *(COMPLETED, LOST, AGAIN),
    *(STARTED, BUFFERED, FROZEN, REFUSED),
    *(CRASHES, REPEATED),
    *(RECEIPTS, TWICE, STRANGE, SUCCESSOR),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.db"


@pytest.fixture
def jobs(path: Path) -> Iterator[tenure.Jobs]:
    """A store in which everything has happened that the demo shows: to one job each."""
    with tenure.Jobs(url_of(path)) as jobs:
        jobs.enqueue_many([tenure.NewJob("work", id=f"job-{n}") for n in range(PLAYED.number)])
        create_receipts(path)
        dead = jobs.claim(limit=2, worker="killed")
        begin(path, dead[0])
        (late,) = jobs.claim(worker="frozen")
        begin(path, late)
        jobs._backend.reap(worker="killed", started=["job-0"])
        jobs.reap(worker="frozen")
        for claim in jobs.claim(limit=9, worker="successor"):
            begin(path, claim)
            complete(claim)
        complete(late)
        yield jobs


def begin(path: Path, claim: tenure.Claim) -> None:
    write_start(starts_beside(path), Trace.of(claim.job))


def complete(claim: tenure.Claim) -> None:
    with suppress(tenure.ClaimLost), claim.transaction() as db:
        db.execute(WRITE, Trace.of(claim.job))


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def broken(lines: list[Line]) -> list[str]:
    return [line.text for line in lines if not line.holds]


def demonstrate(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tenure.cli", "demo", *arguments]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="strict"
    )


def told_until(process: "subprocess.Popen[str]", text: str) -> str:
    """Return what a demo says until this is said."""
    assert process.stdout is not None
    told = ""
    while text not in told:
        line = process.stdout.readline()
        assert line, f"it never came to: {text}"
        told += line
    return told


def processes_on(folder: Path) -> list[str]:
    """Return the commands that run with this folder among their arguments, but for the demo itself."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [each for each in found if str(folder) in each and "work" in each]


def pids_in(told: str) -> list[int]:
    (race,) = re.findall(r"with pid (.*)", told)
    return [*map(int, race.split(", ")), *map(int, re.findall(r"\(pid (\d+)\)", told))]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


SPINNING = """
import threading
for _ in range(20):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
print("spinning", flush=True)
threading.Event().wait()
"""


def test_a_worker_that_is_frozen_does_nothing_any_more() -> None:
    with subprocess.Popen([sys.executable, "-c", SPINNING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        member = Member(1, "worker", process.pid)
        found: set[str] = set()
        for _ in range(20):
            member.freeze()
            found |= {
                each.read_text().rpartition(") ")[2][0] for each in Path(f"/proc/{process.pid}/task").glob("*/stat")
            }
            member.thaw()
        process.kill()

    assert found == {"T"}


@only_in_all
def test_a_worker_is_killed_and_one_frozen_and_every_line_holds(tmp_path: Path) -> None:
    """Takes long: the whole demo runs, with four workers and real leases."""
    out, err = demonstrate(tmp_path).communicate(timeout=240)

    shown = [line for line in out.splitlines() if line.startswith("  ✓  ")]
    number = {line[5:].split("  ")[0]: int(line.split()[-1].replace(",", "")) for line in shown}
    assert err == ""
    assert list(number) == LINES
    assert number[COMPLETED] == number[RECEIPTS] > 200
    assert number[LOST] == number[AGAIN] == number[TWICE] == number[STRANGE] == 0
    assert f"is killed with SIGKILL: {number[STARTED]} jobs started, {number[BUFFERED]} buffered" in out
    assert f": {number[STARTED]} count a crash, {number[BUFFERED]} do not" in out
    assert "the supervisor starts worker 5 (pid " in out
    assert f"is frozen with SIGSTOP, {number[FROZEN]} jobs in its hands" in out
    assert f"is refused {number[FROZEN]} times: ClaimLost" in out
    assert "All 13 lines hold." in out
    assert "\x1b" not in out
    assert "\r" not in out
    assert list(tmp_path.iterdir()) == []
    assert [pid for pid in pids_in(out) if is_alive(pid)] == []
    assert processes_on(tmp_path) == []


@only_in_all
def test_what_is_to_be_kept_is_the_store_the_starts_and_the_log(tmp_path: Path) -> None:
    """Takes long: a demo with four workers starts, and is stopped in the middle."""
    with demonstrate(tmp_path, "--keep", str(tmp_path / "kept")) as process:
        told_until(process, "is killed with")
        process.terminate()
        process.communicate(timeout=PATIENCE)

    with tenure.Jobs(url_of(tmp_path / "kept" / demo.FILE)) as jobs:
        assert jobs.stats().total("completed") > 0
    assert (tmp_path / "kept" / "demo.starts").read_text() != ""
    assert "the supervisor has ended, since it was told to stop" in (tmp_path / "kept" / "demo.log").read_text()


@pytest.mark.parametrize(
    ("number", "code", "when"),
    [
        (signal.SIGINT, 130, "the race is on"),
        pytest.param(signal.SIGHUP, 129, "is killed with", marks=only_in_all),
        pytest.param(signal.SIGTERM, 143, "is frozen with", marks=only_in_all),
    ],
)
def test_a_demo_that_is_ended_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, code: int, when: str
) -> None:
    """Takes long: a demo with four workers starts, and is stopped in the middle."""
    with demonstrate(tmp_path) as process:
        told = told_until(process, when)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)

    pids = pids_in(told)
    assert (process.returncode, err) == (code, "")
    assert len(pids) >= WORKERS
    assert [pid for pid in pids if is_alive(pid)] == []
    assert processes_on(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@only_in_all
def test_a_demo_that_nobody_reads_any_more_ends_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Takes long: a demo with four workers starts, and ends in the middle."""
    with demonstrate(tmp_path) as process:
        told = told_until(process, "the race is on")
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=PATIENCE)

    assert process.returncode == 1
    assert [pid for pid in pids_in(told) if is_alive(pid)] == []
    assert processes_on(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@only_in_all
def test_the_supervisor_and_its_workers_end_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    """Takes long: a demo with four workers starts, and is killed in the middle."""
    with demonstrate(tmp_path) as process:
        told = told_until(process, "the race is on")
        process.kill()

    ends_at = time.monotonic() + PATIENCE
    while processes_on(tmp_path) or any(map(is_alive, pids_in(told))):
        assert time.monotonic() < ends_at, "something is left"
        time.sleep(0.05)


def test_a_story_that_does_not_go_on_says_what_it_waits_for(
    jobs: tenure.Jobs, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "LONGEST", 0.0)

    with crew_on(path) as crew, pytest.raises(story.StoryHangs, match="still waits until every worker is there"):
        story.Story(jobs, jobs, path, crew, Screen()).play()


@only_in_all
def test_workers_that_cannot_work_are_noticed_with_their_last_words(path: Path, jobs: tenure.Jobs) -> None:
    """Takes long: the supervisor starts its first worker three times before it gives up."""
    elsewhere = path.parent / "none.db"
    elsewhere.write_text("no database, " * 100)

    with crew_on(elsewhere) as crew, pytest.raises(WorkerFailed, match=r"ended with code 2: .*this is no SQLite"):
        story.Story(jobs, jobs, path, crew, Screen()).play()


def test_a_worker_that_ended_by_itself_is_noticed_by_the_one_too_many_that_came(path: Path) -> None:
    now = datetime.now(UTC)
    names = [f"w{n}" for n in range(WORKERS + 1)]
    workers = [tenure.Worker(name=name, host="", pid=0, version="", started_at=now, beat_at=now) for name in names]

    with crew_on(path) as crew:
        crew.meet(workers[:WORKERS])
        crew.check()
        crew.meet(workers)
        with pytest.raises(WorkerFailed, match="a worker ended that was not to, and was replaced"):
            crew.check()


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
    assert [line.number for line in lines] == [5, 0, 0, 1, 1, 1, 1, 2, 2, 5, 0, 0, 5]
    assert broken(lines) == []


@pytest.mark.parametrize(
    ("statement", "noticed"),
    [
        ("delete from receipts where job = 'job-0'", [RECEIPTS]),
        ("insert into receipts select * from receipts where job = 'job-0'", [RECEIPTS, TWICE]),
        ("insert into receipts values ('job-2', 1, 'frozen')", [RECEIPTS, TWICE, STRANGE]),
        ("update receipts set fence = 1 where job = 'job-0'", [STRANGE]),
        ("update receipts set job = 'job-1' where job = 'job-0'", [TWICE]),
        ("update receipts set worker = 'other'", [STRANGE, SUCCESSOR]),
        ("update tenure_counts set number = number + 1 where event = 'completed'", [AGAIN]),
        ("delete from tenure_counts where event = 'refused'", [REFUSED]),
        ("delete from tenure_history where worker = 'killed' and outcome = 'expired'", [STARTED, CRASHES, REPEATED]),
        ("delete from tenure_history where outcome = 'released'", [BUFFERED]),
        ("update tenure_history set outcome = 'released' where worker = 'killed'", [STARTED, CRASHES]),
        ("update tenure_history set outcome = 'expired'", [BUFFERED, CRASHES]),
        ("delete from tenure_history where worker = 'frozen'", [FROZEN, CRASHES, REPEATED]),
    ],
)
def test_what_does_not_hold_is_noticed(jobs: tenure.Jobs, path: Path, statement: str, noticed: list[str]) -> None:
    execute(path, statement)

    assert broken(examine(jobs, path, PLAYED)) == noticed


def test_a_job_that_is_missing_is_noticed(jobs: tenure.Jobs, path: Path) -> None:
    jobs.delete("job-3")

    assert broken(examine(jobs, path, PLAYED)) == [COMPLETED, LOST, AGAIN, REPEATED, STRANGE]


def test_a_job_that_is_not_completed_is_noticed(jobs: tenure.Jobs, path: Path) -> None:
    jobs.enqueue("work")

    assert broken(examine(jobs, path, replace(PLAYED, number=6))) == [COMPLETED, RECEIPTS]


def test_scenes_that_did_not_happen_are_noticed(jobs: tenure.Jobs, path: Path) -> None:
    nothing = Caught(worker="other", started=frozenset(), buffered=frozenset())
    other = Played(number=5, killed=nothing, successor="other", frozen=nothing)

    assert broken(examine(jobs, path, other)) == [STARTED, BUFFERED, FROZEN, SUCCESSOR]


def test_a_run_that_neither_completed_its_job_nor_stands_in_its_history_is_noticed(
    jobs: tenure.Jobs, path: Path
) -> None:
    write_start(starts_beside(path), Trace("job-3", 7, "other"))

    assert broken(examine(jobs, path, PLAYED)) == [REPEATED]


def test_the_exit_code_says_that_a_line_does_not_hold(
    jobs: tenure.Jobs, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(path, "delete from receipts")

    code = demo.conclude(Screen(), examine(jobs, path, PLAYED))

    assert code == 1
    assert "Not as promised: 2 of 13 lines." in capsys.readouterr().out


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


def test_for_programs_there_are_only_the_lines_that_were_found(capsys: pytest.CaptureFixture[str]) -> None:
    lost = Line(text=LOST, source="jobs", number=0, holds=True)
    lines = [lost, replace(lost, text=AGAIN, number=1, holds=False)]

    code = demo.conclude(Records(), lines)

    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 1
    assert [(each["text"], each["number"], each["holds"]) for each in records] == [(LOST, 0, True), (AGAIN, 1, False)]
