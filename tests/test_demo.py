"""The demo runs, and its report detects violations."""

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
from tenure.cli.demo.crew import WORKERS, WorkerFailed, WorkerProcess, start_workers, url_of
from tenure.cli.demo.report import AffectedWorker, DemoFacts, ReportLine, build_report
from tenure.cli.demo.screen import JsonScreen, RaceStatus, Screen, WorkerRow
from tenure.cli.demo.traces import INSERT_RECEIPT, Trace, create_receipts, starts_path, write_start
from tests.tiers import only_in_all

PATIENCE = 120.0

PLAYED = DemoFacts(
    number=5,
    killed=AffectedWorker(
        worker="killed",
        started=frozenset([Trace("job-0", 1, "killed")]),
        buffered=frozenset([Trace("job-1", 1, "killed")]),
    ),
    successor="successor",
    frozen=AffectedWorker(worker="frozen", started=frozenset([Trace("job-2", 1, "frozen")]), buffered=frozenset()),
)

COMPLETED = "jobs completed"
LOST = "jobs lost"
AGAIN = "jobs completed more than once"
STARTED = "started jobs of the killed worker: 1 crash each"
BUFFERED = "buffered jobs of the killed worker: no crash"
FROZEN = "jobs taken over from the frozen worker: 1 crash each"
REFUSED = "late writes rejected"
CRASHES = "crashes, each recorded in the history of its job"
REPEATED = "repeated runs, each recorded there as well"
RECEIPTS = "receipts"
TWICE = "jobs with more than one receipt"
STRANGE = "receipts by a claim that did not complete the job"
SUCCESSOR = "receipts by the replacement of the killed worker"
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
    """A store in which each event of the demo has happened to one job."""
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
    write_start(starts_path(path), Trace.of(claim.job))


def complete(claim: tenure.Claim) -> None:
    with suppress(tenure.ClaimLost), claim.transaction() as db:
        db.execute(INSERT_RECEIPT, Trace.of(claim.job))


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def broken(lines: list[ReportLine]) -> list[str]:
    return [line.text for line in lines if not line.holds]


def demonstrate(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tenure.cli", "demo", *arguments]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="strict"
    )


def told_until(process: "subprocess.Popen[str]", text: str) -> str:
    """Read the output of a demo up to a text; return the output."""
    assert process.stdout is not None
    told = ""
    while text not in told:
        line = process.stdout.readline()
        assert line, f"the demo did not print {text!r}"
        told += line
    return told


def processes_on(folder: Path) -> list[str]:
    """Return the running commands that name this folder, without the demo itself."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [each for each in found if str(folder) in each and "work" in each]


def pids_in(told: str) -> list[int]:
    (race,) = re.findall(r"workers started: pid (.*)", told)
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
        member = WorkerProcess(1, "worker", process.pid)
        found: set[str] = set()
        for _ in range(20):
            member.freeze()
            found |= {
                each.read_text().rpartition(") ")[2][0] for each in Path(f"/proc/{process.pid}/task").glob("*/stat")
            }
            member.resume()
        process.kill()

    assert found == {"T"}


@only_in_all
def test_a_worker_is_killed_and_one_frozen_and_every_line_holds(tmp_path: Path) -> None:
    """Slow: the whole demo runs, with four workers and real leases."""
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
    assert f"is frozen with SIGSTOP while it holds {number[FROZEN]} jobs" in out
    assert f"the store rejects the {number[FROZEN]} late writes of worker " in out
    assert "All 13 lines hold." in out
    assert "\x1b" not in out
    assert "\r" not in out
    assert list(tmp_path.iterdir()) == []
    assert [pid for pid in pids_in(out) if is_alive(pid)] == []
    assert processes_on(tmp_path) == []


@only_in_all
def test_what_is_to_be_kept_is_the_store_the_starts_and_the_log(tmp_path: Path) -> None:
    """Slow: a demo with four workers starts, and is stopped in the middle."""
    with demonstrate(tmp_path, "--keep", str(tmp_path / "kept")) as process:
        told_until(process, "is killed with")
        process.terminate()
        process.communicate(timeout=PATIENCE)

    with tenure.Jobs(url_of(tmp_path / "kept" / demo.STORE_FILE)) as jobs:
        assert jobs.stats().total("completed") > 0
    assert (tmp_path / "kept" / "demo.starts").read_text() != ""
    assert "supervisor ended: stopped" in (tmp_path / "kept" / "demo.log").read_text()


@pytest.mark.parametrize(
    ("number", "code", "when"),
    [
        (signal.SIGINT, 130, "workers started"),
        pytest.param(signal.SIGHUP, 129, "is killed with", marks=only_in_all),
        pytest.param(signal.SIGTERM, 143, "is frozen with", marks=only_in_all),
    ],
)
def test_a_demo_that_is_ended_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, code: int, when: str
) -> None:
    """Slow: a demo with four workers starts, and is stopped in the middle."""
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
    """Slow: a demo with four workers starts, and ends in the middle."""
    with demonstrate(tmp_path) as process:
        told = told_until(process, "workers started")
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=PATIENCE)

    assert process.returncode == 1
    assert [pid for pid in pids_in(told) if is_alive(pid)] == []
    assert processes_on(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@only_in_all
def test_the_supervisor_and_its_workers_end_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    """Slow: a demo with four workers starts, and is killed in the middle."""
    with demonstrate(tmp_path) as process:
        told = told_until(process, "workers started")
        process.kill()

    ends_at = time.monotonic() + PATIENCE
    while processes_on(tmp_path) or any(map(is_alive, pids_in(told))):
        assert time.monotonic() < ends_at, "processes or files are left"
        time.sleep(0.05)


def test_a_story_that_does_not_go_on_says_what_it_waits_for(
    jobs: tenure.Jobs, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "TIME_LIMIT", 0.0)

    with (
        start_workers(path) as crew,
        pytest.raises(story.StoryTimeout, match="waiting until all workers are registered"),
    ):
        story.Story(jobs, jobs, path, crew, Screen()).play()


@only_in_all
def test_workers_that_cannot_work_are_noticed_with_their_last_words(path: Path, jobs: tenure.Jobs) -> None:
    """Slow: the supervisor starts its first worker three times before giving up."""
    elsewhere = path.parent / "none.db"
    elsewhere.write_text("no database, " * 100)

    with (
        start_workers(elsewhere) as crew,
        pytest.raises(WorkerFailed, match=r"ended with code 2: .*the file is not a SQLite"),
    ):
        story.Story(jobs, jobs, path, crew, Screen()).play()


def test_a_worker_that_ended_by_itself_is_noticed_by_the_one_too_many_that_came(path: Path) -> None:
    now = datetime.now(UTC)
    names = [f"w{n}" for n in range(WORKERS + 1)]
    workers = [tenure.WorkerInfo(name=name, host="", pid=0, version="", started_at=now, beat_at=now) for name in names]

    with start_workers(path) as crew:
        crew.add_registered(workers[:WORKERS])
        crew.check()
        crew.add_registered(workers)
        with pytest.raises(WorkerFailed, match="a worker ended unexpectedly and was replaced"):
            crew.check()


@pytest.mark.parametrize(("encoding", "square"), [("utf-8", "■"), ("ascii", "#")])
def test_a_terminal_shows_who_holds_how_many_jobs(encoding: str, square: str) -> None:
    terminal = TextIOWrapper(BytesIO(), encoding)
    screen = Screen(Console(file=terminal, force_terminal=True, color_system=None, width=80))
    rows = [WorkerRow(name="worker 1", state="works", holds=5), WorkerRow(name="worker 2", state="frozen", holds=2)]

    with screen.live():
        screen.update(RaceStatus(completed=7, number=600, workers=rows))

    terminal.seek(0)
    shown = terminal.read()
    assert f"worker 1  works   {square * 5}" in shown
    assert f"worker 2  frozen  {square * 2}" in shown
    assert "7 of 600 completed" in shown


def test_a_store_in_which_all_of_it_happened_is_found_so(jobs: tenure.Jobs, path: Path) -> None:
    lines = build_report(jobs, path, PLAYED)

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

    assert broken(build_report(jobs, path, PLAYED)) == noticed


def test_a_job_that_is_missing_is_noticed(jobs: tenure.Jobs, path: Path) -> None:
    jobs.delete("job-3")

    assert broken(build_report(jobs, path, PLAYED)) == [COMPLETED, LOST, AGAIN, REPEATED, STRANGE]


def test_a_job_that_is_not_completed_is_noticed(jobs: tenure.Jobs, path: Path) -> None:
    jobs.enqueue("work")

    assert broken(build_report(jobs, path, replace(PLAYED, number=6))) == [COMPLETED, RECEIPTS]


def test_scenes_that_did_not_happen_are_noticed(jobs: tenure.Jobs, path: Path) -> None:
    nothing = AffectedWorker(worker="other", started=frozenset(), buffered=frozenset())
    other = DemoFacts(number=5, killed=nothing, successor="other", frozen=nothing)

    assert broken(build_report(jobs, path, other)) == [STARTED, BUFFERED, FROZEN, SUCCESSOR]


def test_a_run_that_neither_completed_its_job_nor_stands_in_its_history_is_noticed(
    jobs: tenure.Jobs, path: Path
) -> None:
    write_start(starts_path(path), Trace("job-3", 7, "other"))

    assert broken(build_report(jobs, path, PLAYED)) == [REPEATED]


def test_the_exit_code_says_that_a_line_does_not_hold(
    jobs: tenure.Jobs, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(path, "delete from receipts")

    code = demo.print_report(Screen(), build_report(jobs, path, PLAYED))

    assert code == 1
    assert "2 of 13 lines do not hold." in capsys.readouterr().out


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
    assert "tenure needs 3.35.0 or newer" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / demo.STORE_FILE).write_text("mine")

    code = demo.main(["--keep", str(tmp_path)])

    assert code == 2
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / demo.STORE_FILE).read_text() == "mine"


def test_for_programs_there_are_only_the_lines_that_were_found(capsys: pytest.CaptureFixture[str]) -> None:
    lost = ReportLine(text=LOST, source="jobs", number=0, holds=True)
    lines = [lost, replace(lost, text=AGAIN, number=1, holds=False)]

    code = demo.print_report(JsonScreen(), lines)

    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 1
    assert [(each["text"], each["number"], each["holds"]) for each in records] == [(LOST, 0, True), (AGAIN, 1, False)]
