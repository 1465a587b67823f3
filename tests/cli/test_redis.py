"""The command line on Redis and Valkey: the same words, and what can be wrong with a server told in a line."""

import json
import signal
from collections.abc import Iterator

import pytest

from tests.cli.shell import Result, Shell
from tests.processes.stage import until
from tests.redis.stores import Place, new_place
from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.redis import DURABLE, OwnRedis, RedisServer, names
from tests.servers.servers import Servers, shared_redis_clusters, shared_redis_names

PATIENCE = 40.0

APP = """
import tenure

jobs = tenure.Jobs()

@jobs.task
def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.fixture
def own(servers: Servers) -> Iterator[OwnRedis]:
    """A server that has nothing to be warned of."""
    with servers.own_redis(names()[-1], DURABLE) as server:
        yield server


@pytest.fixture(params=[shared_redis_names()[-1], *shared_redis_clusters()])
def place(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Place]:
    """A prefix on a server, and in a cluster."""
    server: RedisServer = servers.shared_redis(request.param)
    with new_place(server.url) as place:
        yield place


@pytest.fixture
def here(shell: Shell, place: Place, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell where the environment names a store that nobody has used yet."""
    monkeypatch.setenv("TENURE_URL", place.url)
    return shell


def is_told_in_one_line(result: Result) -> bool:
    return (result.code, result.out, result.err.count("\n")) == (2, "", 1) and result.err.startswith("tenure: ")


def test_a_job_is_enqueued_counted_listed_and_explained(here: Shell) -> None:
    enqueued = here.run("enqueue", "send", '{"to": "Åsa ☃"}', "--queue", "mail", "--id", "m7")
    stats, listed = here.run("stats", "--json"), here.run("jobs", "list", "--json")
    shown, explained = here.run("jobs", "show", "m7", "--json"), here.run("explain", "m7", "--json")

    assert [(each.code, each.err) for each in (enqueued, stats, listed, shown, explained)] == [(0, "")] * 5
    assert [job["id"] for job in listed.records] == ["m7"]
    assert shown.records[0]["payload"] == {"to": "Åsa ☃"}
    assert "mail" in stats.out
    assert "no worker" in explained.out


def test_a_job_is_claimed_by_one_command_and_completed_by_another(here: Shell) -> None:
    here.run("enqueue", "send", "--id", "m7")

    (claim,) = here.run("claim").lines
    completed = here.run("complete", claim, "--result", "7")
    again = here.run("complete", claim, "--result", "8")

    (job,) = here.run("jobs", "show", "m7", "--json").records
    assert (completed.code, again.code) == (0, 0)
    assert (job["state"], job["result"]) == ("completed", 7)


def test_processes_drain_together(here: Shell) -> None:
    here.write("app.py", APP)
    here.write("lines", '{"type": "add", "payload": {"a": 1, "b": 2}}\n' * 50)
    here.run("enqueue", "--lines", "lines")

    process = here.start("work", "app:jobs", "-p", "2", "--drain", "--json")
    out, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, json.loads(out)["completed"]) == (0, 50)
    assert {job["result"] for job in here.run("jobs", "list", "--json").records} == {3}


def test_a_command_runs_while_its_job_is_held(here: Shell) -> None:
    here.run("enqueue", "send", '{"n": 7}', "--id", "m7")

    process = here.start("exec", "--result", "--", "sh", "-c", "cat; echo 1>&2")
    process.communicate(timeout=PATIENCE)

    (job,) = here.run("jobs", "show", "m7", "--json").records
    assert (process.returncode, job["state"], job["result"]) == (0, "completed", {"n": 7})


def test_migrate_tells_the_layout_and_does_nothing(here: Shell, place: Place) -> None:
    result = here.run("migrate")

    assert result.code == 0
    assert result.out.endswith("has schema 1; there was nothing to do\n")
    assert place.keys() == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sql", "claim"], "runs no SQL; name a store that does"),
        (
            ["migrate", "--sql"],
            "only a PostgreSQL store can be brought up to date by hand",
        ),
    ],
)
def test_what_is_only_for_sql_is_told_in_one_line_with_exit_2(here: Shell, command: list[str], said: str) -> None:
    result = here.run(*command)

    assert is_told_in_one_line(result), result
    assert said in result.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis:/db", "did you mean 'redis://'?"),
        ("reddis://db", "did you mean 'redis://'?"),
        ("redis://db/abc", "a database is a number, such as 0, not 'abc'"),
        ("redis+cluster://db/3", "a cluster has only the database 0, not 3"),
        ("redis://db?prefx=shop", "did you mean 'prefix'?"),
        ("redis://db?prefix=a%7Bb", "prefix must be a name of letters, digits, . _ and -"),
        ("redis://db?timeout=soon", "timeout must be a number from 0.1 to 3600, not 'soon'"),
        ("unix://run/redis.sock", "name a socket by its whole path"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_in_one_line_with_exit_2(shell: Shell, url: str, said: str) -> None:
    result = shell.run("stats", "--url", url)

    assert is_told_in_one_line(result), result
    assert said in result.err


@pytest.mark.parametrize(
    ("login", "rest", "said"),
    [
        (":secret@", "", "does not let us in"),
        ("ada:secret@", "", "does not let us in"),
        ("", "/12345", "has no such database"),
    ],
)
def test_a_server_that_does_not_let_us_in_is_told_in_one_line_without_the_password(
    shell: Shell, own: OwnRedis, login: str, rest: str, said: str
) -> None:
    result = shell.run("stats", "--url", f"redis://{login}{LOOPBACK}:{own.port}{rest}")

    assert is_told_in_one_line(result), result
    assert said in result.err
    assert "secret" not in result.err


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster"])
@pytest.mark.parametrize("command", [["stats"], ["migrate"], ["enqueue", "send"], ["exec", "--", "true"], ["claim"]])
def test_a_server_that_is_not_there_is_told_in_one_line_without_the_password(
    shell: Shell, scheme: str, command: list[str]
) -> None:
    name, *rest = command

    result = shell.run(name, "--url", f"{scheme}://ada:secret@{LOOPBACK}:{free_port()}", *rest)

    assert is_told_in_one_line(result), result
    assert "refused" in result.err
    assert "secret" not in result.err


def test_a_worker_does_not_begin_on_a_server_that_is_not_there(shell: Shell) -> None:
    shell.write("app.py", APP)

    result = shell.run("work", "app:jobs", "--url", f"redis://{LOOPBACK}:{free_port()}", "--drain")

    assert result.code == 2
    assert "refused" in result.err
    assert "Traceback" not in result.err


def test_a_worker_goes_on_when_its_server_is_back_and_ends_on_an_interrupt(
    shell: Shell, own: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENURE_URL", own.url)
    shell.write("app.py", APP)
    process = shell.start("work", "app:jobs")
    until(lambda: shell.run("workers", "--json").records)

    own.kill()
    own.start()
    shell.run("enqueue", "add", '{"a": 1, "b": 2}', "--id", "job")
    until(lambda: shell.run("jobs", "show", "job", "--json").records[0]["state"] == "completed")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert "has ended: 1 completed" in err
    assert "Traceback" not in err
