"""The examples run as programs and do what their docs say."""

import asyncio
import importlib.util
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import httpx
import pytest

import tenure
from tests.redis.stores import new_place
from tests.servers.servers import Servers, shared_redis_names
from tests.tiers import only_in_all

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PATIENCE = 120.0


class Program:
    """A running program, killed at the end of the test."""

    def __init__(self, *arguments: str | Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-u", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lines(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def wait_for(self, words: str) -> str:
        """Return the next line that contains `words`."""
        return next(line for line in self.lines if words in line)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, list[str]]:
        """Stop the program; return its exit status and remaining output."""
        self._process.send_signal(by)
        rest = self.lines.readlines()
        return self._process.wait(), rest

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self.lines.close()


Start = Callable[..., Program]
Load = Callable[[Path], ModuleType]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENURE_URL", raising=False)


@pytest.fixture
def jobs(folder: None) -> Iterator[tenure.Jobs]:  # noqa: ARG001 - changes the working directory
    with tenure.Jobs() as jobs:
        yield jobs


@pytest.fixture
def redis_store(folder: None, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: ARG001
    """Set TENURE_URL to a store on Redis."""
    with new_place(servers.shared_redis(shared_redis_names()[-1]).url) as place:
        monkeypatch.setenv("TENURE_URL", place.url)
        yield


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts a program, given a path, or `-m` and a module, then arguments."""
    programs: list[Program] = []

    def start(*arguments: str | Path) -> Program:
        programs.append(Program(*arguments))
        return programs[-1]

    yield start
    for program in programs:
        program.close()


@pytest.fixture
def load() -> Iterator[Load]:
    """A function that imports a program again, so that its `jobs` is new for the test."""
    modules: list[Any] = []

    def load(path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        modules.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(modules[-1])
        return modules[-1]  # type: ignore[no-any-return]

    yield load
    for module in modules:
        module.jobs.close()


def run(name: str, *arguments: str) -> str:
    """Run an example to completion; return the output."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def calling(function: Callable[[], None], *, at: str) -> Iterator[None]:
    """Call a function at every log message with the text `at`."""

    class Caller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if at in record.getMessage():
                function()

    root, caller = logging.getLogger(), Caller()
    level = root.level
    root.addHandler(caller)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(caller)


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app")


def wait_until_begun(jobs: tenure.Jobs, id: str) -> None:
    while (job := jobs.get(id)) is None or job.state == "queued":
        pass


def write_the_app_of_the_tutorial() -> Path:
    """Write the app from the code blocks of the tutorial, in the order that the tutorial gives."""
    blocks = re.findall(r"```python\n(# app\.py.*?)```", (ROOT / "docs/tutorial.md").read_text(), re.DOTALL)
    blocks.sort(key=lambda block: block.startswith("# app.py, at its end"))
    path = Path("app.py").absolute()
    path.write_text("\n\n".join(blocks))
    return path


def test_the_plain_loop_works_until_it_gets_a_signal(start: Start, jobs: tenure.Jobs) -> None:
    run("plain_loop.py", "enqueue", "3")
    program = start(EXAMPLES / "plain_loop.py")
    program.wait_for("2-100.png")

    status, rest = program.stop()

    assert status == 0
    assert rest[-1] == "stopped\n"
    assert sorted(job.result for job in jobs.find(state="completed")) == ["1-100.png", "2-100.png"]
    assert ["image 0 cannot be read" in job.errors[-1] for job in jobs.find(state="queued")] == [True]


@only_in_all
@pytest.mark.usefixtures("redis_store")
def test_the_plain_loop_works_on_redis_if_the_environment_says_so(start: Start) -> None:
    run("plain_loop.py", "enqueue", "3")
    program = start(EXAMPLES / "plain_loop.py")
    program.wait_for("2-100.png")

    status, _ = program.stop()

    assert status == 0
    with tenure.Jobs() as jobs:
        assert sorted(job.result for job in jobs.find(state="completed")) == ["1-100.png", "2-100.png"]
    assert not Path("tenure.db").exists()


def test_what_the_plain_loop_has_claimed_and_not_begun_is_given_back(load: Load, jobs: tenure.Jobs) -> None:
    loop = load(EXAMPLES / "plain_loop.py")
    jobs.enqueue_many(tenure.NewJob("resize", {"image": image}) for image in range(1, 4))

    with calling(loop.stop, at="completed:"):
        loop.work()

    assert jobs.stats().total("completed") == 1
    assert [job.attempts for job in jobs.find(state="queued")] == [0, 0]


def test_mail_is_sent_by_the_worker(start: Start, jobs: tenure.Jobs) -> None:
    worker = start(EXAMPLES / "mail.py", "work")
    worker.wait_for("tasks send, digest")

    sent, refused = (run("mail.py", "send", to, "Hello").strip() for to in ("ada@example.org", "nobody"))
    with pytest.raises(tenure.JobFailed, match="'nobody' is not an address"):
        jobs.wait_for(refused, timeout=PATIENCE)

    assert jobs.wait_for(sent, timeout=PATIENCE).result == sent
    assert Path("outbox.txt").read_text() == f"{sent} to ada@example.org: Hello\n"
    status, rest = worker.stop(signal.SIGINT)
    assert status == 0
    assert rest[-1] == "1 completed, 1 failed\n"


def test_the_digest_of_a_day_is_sent_once_however_often_it_runs(load: Load) -> None:
    mail = load(EXAMPLES / "mail.py")
    mail.digest.enqueue()
    mail.digest.enqueue()

    summary = mail.jobs.work(drain=True)

    assert summary.completed == 2 + len(mail.READERS)
    assert len(Path("outbox.txt").read_text().splitlines()) == len(mail.READERS)


def test_the_fastapi_app_makes_reports_beside_its_requests(load: Load) -> None:
    example = load(EXAMPLES / "fastapi_app.py")
    app = example.app

    async def order_and_get() -> tuple[Any, ...]:
        async with app.router.lifespan_context(app), client_of(app) as client:
            answer = await client.post("/reports", params={"month": "2026-10-01"})
            await example.jobs.aio.wait_for(answer.json()["id"], timeout=PATIENCE)
            return answer, await client.get(f"/reports/{answer.json()['id']}"), await client.get("/reports/none")

    answer, report, unknown = asyncio.run(order_and_get())

    assert answer.status_code == 202
    assert report.json()["state"] == "completed"
    assert report.json()["report"] == {"month": "2026-10-01", "orders": 400}
    assert unknown.status_code == 404


def test_a_server_of_the_fastapi_app_that_gets_a_signal_completes_the_report_that_is_being_made(
    start: Start, jobs: tenure.Jobs
) -> None:
    server = start("-m", "uvicorn", "--app-dir", EXAMPLES, "--port", "0", "fastapi_app:app")
    url = server.wait_for("running on http").split("running on ")[1].split()[0]
    id = httpx.post(f"{url}/reports", params={"month": "2026-10-01"}, timeout=PATIENCE).json()["id"]
    wait_until_begun(jobs, id)

    server.stop()

    assert jobs.wait_for(id, timeout=0).result == {"month": "2026-10-01", "orders": 400}


def test_a_report_that_waits_to_be_made_is_not_ordered_twice(load: Load) -> None:
    app = load(EXAMPLES / "fastapi_app.py").app

    async def order_twice() -> list[Any]:
        async with client_of(app) as client:  # without the lifespan of the app: no worker runs
            return [(await client.post("/reports", params={"month": "2026-10-01"})).json() for _ in range(2)]

    first, second = asyncio.run(order_twice())

    assert first == second


def test_what_the_flask_app_enqueues_its_worker_does_within_the_app(
    start: Start, load: Load, jobs: tenure.Jobs
) -> None:
    client = load(EXAMPLES / "flask_app.py").app.test_client()
    worker = start(EXAMPLES / "flask_app.py", "worker")

    answer = client.post("/greetings", data={"name": "Ada"})
    jobs.wait_for(answer.json["id"], timeout=PATIENCE)
    greeting = client.get(f"/greetings/{answer.json['id']}")

    assert answer.status_code == 202
    assert greeting.json == {"state": "completed", "greeting": "Hello, Ada!"}
    assert client.get("/greetings/none").status_code == 404
    assert worker.stop()[0] == 0


@only_in_all
def test_the_app_of_the_tutorial_goes_on_when_one_of_its_workers_is_killed(start: Start, load: Load) -> None:
    """Slow: two workers start, and the lease of a killed worker expires."""
    path = write_the_app_of_the_tutorial()
    app = load(path)
    workers = [start(path, "work") for _ in range(2)]
    for worker in workers:
        worker.wait_for("concurrency 10")
    id = app.count.enqueue(5)
    wait_until_begun(app.jobs, id)
    holder, other = sorted(workers, key=lambda worker: f":{worker.pid}:" not in app.jobs.get(id).worker)

    holder.kill()

    assert app.count.result(id, timeout=PATIENCE) == 5
    assert app.jobs.get(id).attempts == 2
    assert "lease expired" in app.jobs.get(id).errors[0]
    assert other.stop()[0] == 0


def test_every_example_is_named_in_their_readme() -> None:
    readme = (EXAMPLES / "README.md").read_text()

    assert [path.name for path in EXAMPLES.glob("*.py") if f"({path.name})" not in readme] == []
