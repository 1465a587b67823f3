"""`tenure work`: a worker, or several under a supervisor, as processes that a test starts, kills and stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from tempfile import TemporaryDirectory

import pytest

import tenure
from tests.cli.shell import Shell
from tests.cli.terminal import is_alive
from tests.processes.stage import PATIENCE, until
from tests.tiers import only_in_all, starts_processes

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


def working(shell: Shell, *options: str, target: str = "app:jobs", **others: str) -> "subprocess.Popen[str]":
    """Start `tenure work`."""
    return shell.start("work", target, *options, env=others)


def ended(process: "subprocess.Popen[str]", number: signal.Signals | None = None) -> tuple[int, str, str]:
    """Send the signal, if any; wait for the end and return the result."""
    if number is not None:
        process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def workers(shell: Shell, number: int) -> list[tenure.WorkerInfo]:
    """Wait until this number of workers is registered."""
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


@starts_processes
def test_what_handlers_print_at_once_is_handed_on_by_each_and_not_held_back_by_python(app: Shell) -> None:
    app.write(
        "prints.py",
        "import sys\nfrom app import jobs\n\n@jobs.task\ndef tell():\n    print(sys.stdout.write_through)\n",
    )
    app.run("enqueue", "tell")

    process = working(app, "--drain", "--import=prints")
    out, _ = process.communicate(timeout=PATIENCE)

    assert out == "True\n"


@starts_processes
def test_processes_drain_together(app: Shell) -> None:
    app.write("lines", '{"type": "add", "payload": {"a": 1, "b": 2}}\n' * 50)
    app.run("enqueue", "--lines", "lines")

    process = working(app, "--processes", "2", "--drain", "--json")
    code, out, _ = ended(process)

    assert (code, json.loads(out)["completed"]) == (0, 50)


@only_in_all
@starts_processes
def test_a_drain_in_which_a_process_died_is_not_taken_for_one_that_found_nothing(app: Shell) -> None:
    app.run("enqueue", "die", "--app", "app:jobs")

    process = working(app, "--processes", "1", "--drain")
    code, _, _ = ended(process)

    assert code == 1


@starts_processes
@pytest.mark.parametrize(
    ("options", "number"),
    [
        pytest.param((), signal.SIGTERM, id="alone-SIGTERM"),
        pytest.param(("--processes", "2"), signal.SIGINT, id="supervised-SIGINT"),
        pytest.param((), signal.SIGINT, id="alone-SIGINT", marks=only_in_all),
        pytest.param(("--processes", "2"), signal.SIGTERM, id="supervised-SIGTERM", marks=only_in_all),
    ],
)
def test_a_signal_ends_it_when_its_runs_have(app: Shell, options: tuple[str, ...], number: signal.Signals) -> None:
    id = app.run("enqueue", "hold").out.strip()

    process = working(app, *options)
    until(lambda: list(app.folder.glob("held-by-*")))
    process.send_signal(number)
    app.write("gate", "")
    code, _, err = ended(process)

    assert code == 0
    assert "Traceback" not in err
    assert job(app, id).state == "completed"
    with app.jobs() as jobs:
        assert jobs.workers() == []


@starts_processes
@pytest.mark.parametrize("options", [(), ("--processes", "2")], ids=["alone", "supervised"])
def test_with_until_eof_it_ends_when_its_input_does(app: Shell, options: tuple[str, ...]) -> None:
    process = app.start("work", "app:jobs", "--until-eof", *options, stdin=subprocess.PIPE)
    workers(app, len(options) or 1)

    process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    with app.jobs() as jobs:
        assert jobs.workers() == []


@starts_processes
def test_what_a_killed_process_had_started_has_crashed_at_once_and_runs_again(app: Shell) -> None:
    """Slow: a supervisor starts two workers, and restarts one."""
    ids = [app.run("enqueue", "hold").out.strip() for _ in range(2)]

    process = working(app, "--processes", "2", "--concurrency", "1", "--lease", "10m")
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


@starts_processes
def test_processes_that_cannot_start_are_given_up_with_their_reason(app: Shell) -> None:
    app.write("broken.py", "raise RuntimeError('there is no configuration')\n")

    process = working(app, "--processes", "3", target="broken:jobs")
    code, _, err = ended(process)

    assert code == 2
    assert err.count("cannot import 'broken': RuntimeError: there is no configuration") == 1
    assert "supervisor stopped: the worker process could not start" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["work", "nowhere:jobs"], "no module 'nowhere'"),
        (["work", "app:json"], "'app' has no 'json'"),
        (["work", "app:here"], "app:here has type PosixPath; pass a Jobs or a Table"),
        (["work", "app"], "use MODULE:OBJECT, such as app:jobs"),
        (["work"], "missing argument"),
        (["work", "app:jobs", "--concurrency", "0"], "concurrency must be 1 to 1,000"),
        (["work", "app:jobs", "--lease", "10ms"], "lease must be 1 to"),
        (["work", "app:jobs", "--type", "ad"], "no task is registered for type 'ad': import the module"),
        (["work", "app:jobs", "--import", "nowhere"], "no module 'nowhere'"),
        (["work", "app:jobs", "--max-memory", "lots"], "invalid size 'lots': use a number with K, M or G"),
        (["work", "app:jobs", "--processes", "0"], "invalid number of processes '0'"),
        (["work", "app:jobs", "--health", "no"], "'no'"),
        (["work", "app:jobs", "--url", "sqlite:///no/folder.db"], "the folder of"),
        (["work", "empty:jobs"], "there are no tasks to run"),
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


@starts_processes
def test_another_store_than_that_of_the_app_can_be_named(app: Shell) -> None:
    app.run("enqueue", "add", '{"a": 1, "b": 2}', "--url", "sqlite:///other.db")

    process = working(app, "--url", "sqlite:///other.db", "--processes", "1", "--drain")
    code, _, _ = ended(process)

    assert code == 0
    assert not (app.folder / "tenure.db").exists()


@starts_processes
def test_a_store_in_memory_is_not_shared_by_processes(app: Shell) -> None:
    process = working(app, "--url", "memory://", "--processes", "2")
    code, _, err = ended(process)

    assert code == 2
    assert "cannot be shared" in err


class Systemd:
    """Receives the systemd notifications of a service."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(PATIENCE)
        self._told = ""

    def hears(self, word: str) -> None:
        """Wait for a notification."""
        while word not in self._told:
            self._told += self._socket.recv(4096).decode()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd() -> Iterator[Systemd]:
    # Not in the folder of the test: the path of a socket must be short.
    with TemporaryDirectory(prefix="s-") as folder, closing(Systemd(f"{folder}/s")) as systemd:
        yield systemd


@starts_processes
@pytest.mark.parametrize("options", [(), ("--processes", "1")], ids=["alone", "supervised"])
def test_health_is_told_over_http_and_to_systemd(app: Shell, systemd: Systemd, options: tuple[str, ...]) -> None:
    process = working(app, *options, "--health", "0", NOTIFY_SOCKET=systemd.address)

    url = url_told_by(process)
    systemd.hears("READY=1")
    answers = {path: asked(f"{url}{path}") for path in ("livez", "readyz", "metrics")}
    process.send_signal(signal.SIGTERM)
    systemd.hears("STOPPING=1")
    code, _, _ = ended(process)

    assert code == 0
    assert (answers["livez"], answers["readyz"]) == ("ok\n", "ok\n")
    assert 'tenure_runs_total{outcome="completed"} 0' in answers["metrics"]


def test_logs_are_json_lines_on_request_with_the_facts_of_a_run(app: Shell) -> None:
    id = app.run("enqueue", "fail", "--app", "app:jobs").out.strip()

    worked = app.run("work", "app:jobs", "--drain", "--log-format", "json")

    lines = [json.loads(line) for line in worked.err.splitlines()]
    (failure,) = [line for line in lines if line["level"] == "ERROR"]
    assert (failure["job"], failure["type"], failure["attempt"], failure["fence"]) == (id, "fail", 1, 1)
    (name,) = {line["worker"] for line in lines if "worker" in line}
    assert len([line for line in lines if "worker" not in line]) <= 1  # before the worker had a name
    assert failure["worker"] == name
    assert "RuntimeError: no luck" in failure["error"]


@starts_processes
@pytest.mark.parametrize(
    "closed", ["<&- >&- 2>&-", *(pytest.param(each, marks=only_in_all) for each in ("<&-", ">&-", "2>&-"))]
)
def test_processes_work_whatever_streams_are_closed(app: Shell, closed: str) -> None:
    app.run("enqueue", "add", '{"a": 1, "b": 2}')
    command = f'exec "{sys.executable}" -m tenure.cli work app:jobs --processes 1 --drain {closed}'

    code, _, _ = ended(app.start_any("sh", "-c", command))

    assert code == 0


@only_in_all
@starts_processes
def test_a_process_that_is_still_being_imported_ends_with_its_supervisor(app: Shell) -> None:
    """Slow: a child that cannot stop is given its grace and a margin of 15 seconds."""
    app.write("slow.py", "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(999)")
    process = working(app, "--processes", "1", "--grace", "0s", target="slow:jobs")
    pid = until(lambda: (app.folder / "pid").exists() and (app.folder / "pid").read_text())
    process.kill()

    until(lambda: not is_alive(int(pid)))


@only_in_all
@starts_processes
def test_the_processes_end_with_a_supervisor_that_is_killed(app: Shell) -> None:
    process = working(app, "--processes", "2")
    pids = [worker.pid for worker in workers(app, 2)]
    process.kill()

    until(lambda: not any(map(is_alive, pids)))

    with app.jobs() as jobs:
        assert jobs.workers() == []


def asked(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - our own server
        return str(answer.read().decode())


def url_told_by(process: "subprocess.Popen[str]") -> str:
    """Wait until the worker has logged the address of its health endpoint; return it."""
    assert process.stderr is not None
    told = (line.partition("health and metrics: ")[2].split() for line in process.stderr)
    url = next(words[0] for words in told if words)
    return f"{url.rstrip('/')}/"
