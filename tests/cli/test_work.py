"""`tenure work`: a worker, or several under a supervisor, as processes that a test starts, kills and stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

import tenure
from tests.cli.shell import Shell

T = TypeVar("T")

PATIENCE = 40.0

APP = """
import os, pathlib, time
import tenure

jobs = tenure.Jobs("sqlite:///tenure.db?synchronous=normal")
here = pathlib.Path(__file__).parent

@jobs.task
def add(a: int, b: int) -> int:
    return a + b

@jobs.task(max_attempts=1)
def fail() -> None:
    raise RuntimeError("no luck")

@jobs.task(max_attempts=1)
def die() -> None:
    os._exit(0)

@jobs.task
def hold() -> int:
    (here / f"held-by-{os.getpid()}").touch()
    while not (here / "gate").exists():
        time.sleep(0.01)
    return os.getpid()
"""


@pytest.fixture
def app(shell: Shell) -> Shell:
    """A shell in the folder of an app that has tasks."""
    shell.write("app.py", APP)
    return shell


@contextmanager
def working(shell: Shell, *options: str, target: str = "app:jobs", **others: str) -> Iterator["subprocess.Popen[str]"]:
    """Have `tenure work` running; on leaving, it is not."""
    process = shell.start("work", target, *options, env=others)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(condition: Callable[[], T]) -> T:
    ends_at = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < ends_at, f"it did not come to pass within {PATIENCE:g} s"
        time.sleep(0.02)
    return value


def ended(process: "subprocess.Popen[str]", number: signal.Signals | None = None) -> tuple[int, str, str]:
    """Return how it ended, after a signal if one is given."""
    if number is not None:
        process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def workers(shell: Shell, number: int) -> list[tenure.Worker]:
    """Wait until so many workers have said that they are there."""
    with shell.jobs() as jobs:
        return until(lambda: known if len(known := jobs.workers()) == number else [])


def job(shell: Shell, id: str) -> tenure.Job:
    with shell.jobs() as jobs:
        found = jobs.get(id)
    assert found is not None
    return found


def test_a_drained_worker_tells_what_it_did_by_its_exit_code(app: Shell) -> None:
    nothing = app.run("work", "app:jobs", "--drain", "--json")
    app.run("enqueue", "add", '{"a": 1, "b": 2}')
    done = app.run("work", "app:jobs", "--drain", "--json")
    app.run("enqueue", "add", '{"a": 1, "b": 2}')
    app.run("enqueue", "fail")
    failed = app.run("work", "app:jobs", "--drain", "--json")

    assert (nothing.code, done.code, failed.code) == (3, 0, 1)
    assert done.records[0]["completed"] == 1
    assert (failed.records[0]["completed"], failed.records[0]["failed"]) == (1, 1)


def test_what_handlers_print_at_once_is_handed_on_by_each_and_not_held_back_by_python(app: Shell) -> None:
    app.write(
        "prints.py",
        "import sys\nfrom app import jobs\n\n@jobs.task\ndef tell():\n    print(sys.stdout.write_through)\n",
    )
    app.run("enqueue", "tell")

    with working(app, "--drain", "--import=prints") as process:
        out, _ = process.communicate(timeout=PATIENCE)

    assert out == "True\n"


def test_processes_drain_together(app: Shell) -> None:
    app.write("lines", '{"type": "add", "payload": {"a": 1, "b": 2}}\n' * 50)
    app.run("enqueue", "--lines", "lines")

    with working(app, "--processes", "2", "--drain", "--json") as process:
        code, out, _ = ended(process)

    assert (code, json.loads(out)["completed"]) == (0, 50)


def test_a_drain_in_which_a_process_died_is_not_taken_for_one_that_found_nothing(app: Shell) -> None:
    app.run("enqueue", "die", "--app", "app:jobs")

    with working(app, "--processes", "1", "--drain") as process:
        code, _, _ = ended(process)

    assert code == 1


@pytest.mark.parametrize("options", [(), ("--processes", "2")], ids=["alone", "supervised"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_when_its_runs_have(app: Shell, options: tuple[str, ...], number: signal.Signals) -> None:
    id = app.run("enqueue", "hold").out.strip()

    with working(app, *options) as process:
        until(lambda: list(app.folder.glob("held-by-*")))
        process.send_signal(number)
        app.write("gate", "")
        code, _, err = ended(process)

    assert code == 0
    assert "Traceback" not in err
    assert job(app, id).state == "completed"
    with app.jobs() as jobs:
        assert jobs.workers() == []


@pytest.mark.parametrize("options", [(), ("--processes", "2")], ids=["alone", "supervised"])
def test_with_until_eof_it_ends_when_its_input_does(app: Shell, options: tuple[str, ...]) -> None:
    process = app.start("work", "app:jobs", "--until-eof", *options, stdin=subprocess.PIPE)
    workers(app, len(options) or 1)

    process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    with app.jobs() as jobs:
        assert jobs.workers() == []


def test_what_a_killed_process_had_started_has_crashed_at_once_and_runs_again(app: Shell) -> None:
    ids = [app.run("enqueue", "hold").out.strip() for _ in range(2)]

    with working(app, "--processes", "2", "--concurrency", "1", "--lease", "10m") as process:
        workers(app, 2)
        until(lambda: len(list(app.folder.glob("held-by-*"))) == 2)
        pid = workers(app, 2)[0].pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: len(list(app.folder.glob("held-by-*"))) == 3)
        app.write("gate", "")
        until(lambda: all(job(app, id).state == "completed" for id in ids))
        code, _, err = ended(process, signal.SIGTERM)

    assert code == 0
    assert sorted(job(app, id).crashes for id in ids) == [0, 1]
    assert f"worker process {pid}" in err
    assert "SIGKILL" in err


def test_processes_that_cannot_start_are_given_up_with_their_reason(app: Shell) -> None:
    app.write("broken.py", "raise RuntimeError('there is no configuration')\n")

    with working(app, "--processes", "3", target="broken:jobs") as process:
        code, _, err = ended(process)

    assert code == 2
    assert err.count("'broken' cannot be imported: RuntimeError: there is no configuration") == 1
    assert "gives up" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["work", "nowhere:jobs"], "there is no module 'nowhere'"),
        (["work", "app:json"], "'app' has no 'json'"),
        (["work", "app:here"], "and no Jobs"),
        (["work", "app"], "write it like app:jobs"),
        (["work"], "missing argument"),
        (["work", "app:jobs", "--concurrency", "0"], "concurrency must be 1 to 1,000"),
        (["work", "app:jobs", "--lease", "10ms"], "lease must be 1 to"),
        (["work", "app:jobs", "--type", "ad"], "no task is registered under the type 'ad'; did you mean 'add'?"),
        (["work", "app:jobs", "--import", "nowhere"], "there is no module 'nowhere'"),
        (["work", "app:jobs", "--max-memory", "lots"], "'lots' is no size; write 512M or 2G"),
        (["work", "app:jobs", "--processes", "0"], "'0' is no number of processes"),
        (["work", "app:jobs", "--health", "no"], "'no'"),
        (["work", "app:jobs", "--url", "sqlite:///no/folder.db"], "the folder of"),
        (["work", "empty:jobs"], "there is nothing to run"),
    ],
)
def test_misuse_is_exit_2_and_one_line(app: Shell, arguments: list[str], said: str) -> None:
    app.write("empty.py", "import tenure\njobs = tenure.Jobs()\n")

    result = app.run(*arguments)

    assert result.code == 2
    assert said in result.err
    assert [line for line in result.err.splitlines() if line.startswith("tenure: ")] == [result.err.splitlines()[-1]]
    assert "Traceback" not in result.err


def test_tasks_of_other_modules_are_imported(app: Shell) -> None:
    app.write("more_tasks.py", "from app import jobs\n\n@jobs.task\ndef late() -> str:\n    return 'here'\n")
    id = app.run("enqueue", "late").out.strip()

    result = app.run("work", "app:jobs", "--import", "more_tasks", "--drain")

    assert result.code == 0
    assert job(app, id).result == "here"


def test_another_store_than_that_of_the_app_can_be_named(app: Shell) -> None:
    app.run("enqueue", "add", '{"a": 1, "b": 2}', "--url", "sqlite:///other.db")

    with working(app, "--url", "sqlite:///other.db", "--processes", "1", "--drain") as process:
        code, _, _ = ended(process)

    assert code == 0
    assert not (app.folder / "tenure.db").exists()


def test_a_store_in_memory_is_not_shared_by_processes(app: Shell) -> None:
    with working(app, "--url", "memory://", "--processes", "2") as process:
        code, _, err = ended(process)

    assert code == 2
    assert "cannot be shared by several" in err


@pytest.mark.parametrize("options", [(), ("--processes", "1")], ids=["alone", "supervised"])
def test_health_is_told_over_http_and_to_systemd(app: Shell, options: tuple[str, ...]) -> None:
    address = app.folder / "notify"
    systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    systemd.bind(str(address))
    systemd.settimeout(PATIENCE)

    with systemd, working(app, *options, "--health", "0", NOTIFY_SOCKET=str(address)) as process:
        assert process.stderr is not None
        url = until(lambda: _url_in(process.stderr.readline() if process.stderr else ""))
        told = systemd.recv(4096).decode()
        while "READY=1" not in told:
            told += systemd.recv(4096).decode()
        answers = {path: asked(f"{url}{path}") for path in ("livez", "readyz", "metrics")}
        process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in told:
            told += systemd.recv(4096).decode()
        code, _, _ = ended(process)

    assert code == 0
    assert (answers["livez"], answers["readyz"]) == ("ok\n", "ok\n")
    assert 'tenure_runs_total{outcome="completed"} 0' in answers["metrics"]


def test_logs_are_json_lines_on_request_with_the_facts_of_a_run(app: Shell) -> None:
    id = app.run("enqueue", "fail", "--app", "app:jobs").out.strip()

    with working(app, "--drain", "--log-format", "json") as process:
        _, _, err = ended(process)

    lines = [json.loads(line) for line in err.splitlines()]
    (failure,) = [line for line in lines if line["level"] == "ERROR"]
    assert (failure["job"], failure["type"], failure["attempt"], failure["fence"]) == (id, "fail", 1, 1)
    (name,) = {line["worker"] for line in lines if "worker" in line}
    assert len([line for line in lines if "worker" not in line]) <= 1  # before it had a name
    assert failure["worker"] == name
    assert "RuntimeError: no luck" in failure["error"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_processes_work_whatever_streams_are_closed(app: Shell, closed: str) -> None:
    app.run("enqueue", "add", '{"a": 1, "b": 2}')
    command = f"exec {sys.executable} -m tenure.cli work app:jobs --processes 1 --drain {closed}"

    code = subprocess.run(["sh", "-c", command], cwd=app.folder, timeout=PATIENCE, check=False).returncode  # noqa: S607

    assert code == 0


def test_a_process_that_is_still_being_imported_ends_with_its_supervisor(app: Shell) -> None:
    app.write("slow.py", "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(999)")
    with working(app, "--processes", "1", "--grace", "0s", target="slow:jobs") as process:
        pid = until(lambda: (app.folder / "pid").exists() and (app.folder / "pid").read_text())
        process.kill()

        until(lambda: not Path(f"/proc/{pid}/cmdline").exists())


def test_the_processes_end_with_a_supervisor_that_is_killed(app: Shell) -> None:
    with working(app, "--processes", "2") as process:
        pids = [worker.pid for worker in workers(app, 2)]
        process.kill()

        until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids))

    with app.jobs() as jobs:
        assert jobs.workers() == []


def asked(url: str) -> str:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server
        return str(answer.read().decode())


def _url_in(line: str) -> str | None:
    _, found, url = line.strip().partition("health is told at ")
    return f"{url.split()[0].rstrip('/')}/" if found else None
