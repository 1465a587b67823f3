"""The command line on each server: equal output, and errors of a server in one line."""

import json
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Protocol
from uuid import uuid4

import pytest

from tests.cli.shell import Shell
from tests.postgres import stores as postgres_stores
from tests.processes.stage import PATIENCE, until
from tests.redis import stores as redis_stores
from tests.servers.addresses import LOOPBACK
from tests.servers.redis import DURABLE, OwnRedis, names
from tests.servers.servers import Servers, shared_names, shared_redis_clusters, shared_redis_names
from tests.tiers import only_in_all, starts_processes

POSTGRES = shared_names()[-1]
REDIS = [shared_redis_names()[-1], *shared_redis_clusters()]

APP = """
import tenure

jobs = tenure.Jobs()

@jobs.task
def add(a: int, b: int) -> int:
    return a + b
"""


class Store(Protocol):
    """An empty store on a shared server."""

    url: str

    def give_back(self) -> None: ...


class PostgresStore:
    def __init__(self, servers: Servers, name: str) -> None:
        self._server = servers.shared(name)
        self._schemas = servers.schemas
        self._schema = self._schemas.take(self._server)
        self.url = self._server.url_of(self._schema)

    def give_back(self) -> None:
        self._schemas.give_back(self._server, self._schema)


class RedisStore:
    def __init__(self, servers: Servers, name: str) -> None:
        self._server = servers.shared_redis(name)
        self._prefixes = servers.prefixes
        self._prefix = self._prefixes.take()
        self.url = self._server.url_of(self._prefix)

    def give_back(self) -> None:
        self._prefixes.give_back(self._server, self._prefix)


STORES: dict[str, Callable[[Servers, str], Store]] = {POSTGRES: PostgresStore, **dict.fromkeys(REDIS, RedisStore)}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Store]:
    """The newest PostgreSQL, the newest of Redis and Valkey, and a cluster if this tier has one."""
    store = STORES[request.param](servers, request.param)
    yield store
    store.give_back()


@pytest.fixture
def here(shell: Shell, store: Store, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell whose environment names an empty store on a server."""
    monkeypatch.setenv("TENURE_URL", store.url)
    return shell


@starts_processes
def test_a_job_is_enqueued_counted_listed_and_explained(here: Shell) -> None:
    enqueued = here.run("enqueue", "send", '{"to": "Åsa ☃"}', "--queue", "mail", "--id", "m7")
    stats, listed = here.run("stats", "--json"), here.run("jobs", "list", "--json")
    shown, explained = here.run("jobs", "show", "m7", "--json"), here.run("explain", "m7", "--json")

    assert [(each.code, each.err) for each in (enqueued, stats, listed, shown, explained)] == [(0, "")] * 5
    assert [job["id"] for job in listed.records] == ["m7"]
    assert shown.records[0]["payload"] == {"to": "Åsa ☃"}
    assert "mail" in stats.out
    assert "no live workers" in explained.out


@starts_processes
def test_a_job_is_claimed_by_one_command_and_completed_by_another(here: Shell) -> None:
    here.run("enqueue", "send", "--id", "m7")

    (claim,) = here.run("claim").lines
    completed = here.run("complete", claim, "--result", "7")
    again = here.run("complete", claim, "--result", "8")

    (job,) = here.run("jobs", "show", "m7", "--json").records
    assert (completed.code, again.code) == (0, 0)
    assert (job["state"], job["result"]) == ("completed", 7)


@only_in_all
@starts_processes
def test_processes_drain_together(here: Shell) -> None:
    here.write("app.py", APP)
    here.write("lines", '{"type": "add", "payload": {"a": 1, "b": 2}}\n' * 50)
    here.run("enqueue", "--lines", "lines")

    process = here.start("work", "app:jobs", "-p", "2", "--drain", "--json")
    out, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, json.loads(out)["completed"]) == (0, 50)
    assert {job["result"] for job in here.run("jobs", "list", "--json").records} == {3}


@starts_processes
def test_a_command_runs_while_its_job_is_held(here: Shell) -> None:
    here.run("enqueue", "send", '{"n": 7}', "--id", "m7")

    executed = here.run("exec", "--result", "--", "sh", "-c", "cat; echo 1>&2")

    (job,) = here.run("jobs", "show", "m7", "--json").records
    assert (executed.code, job["state"], job["result"]) == (0, "completed", {"n": 7})


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://db/app?scheema=jobs", "did you mean 'schema'?"),
        ("postgresql://db/app?schema=Jobs", "schema must be 1 to 63 lower-case letters"),
        ("postgresql://db/app?timeout=soon", "timeout must be a number from 0.1 to 3600, not 'soon'"),
        ("postgresql://db/app?connections=0", "connections must be a number from 1 to 1000, not '0'"),
        ("postgresql://db/app?migrate=later", "migrate must be"),
        ("redis:/db", "did you mean 'redis://'?"),
        ("reddis://db", "did you mean 'redis://'?"),
        ("redis://db/abc", "the database must be a number such as 0, not 'abc'"),
        ("redis+cluster://db/3", "a cluster has only database 0, not 3"),
        ("redis://db?prefx=shop", "did you mean 'prefix'?"),
        ("redis://db?prefix=a%7Bb", "prefix must be 1 to 100 letters, digits, '.', '_' or '-'"),
        ("redis://db?timeout=soon", "timeout must be a number from 0.1 to 3600, not 'soon'"),
        ("unix://run/redis.sock", "give the absolute path of a socket"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_in_one_line_with_exit_2(shell: Shell, url: str, said: str) -> None:
    result = shell.run("stats", "--url", url)

    assert result.is_told_in_one_line, result
    assert said in result.err


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A bound port without a listener: connections are refused."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("scheme", ["postgresql", "redis", "rediss", "redis+cluster"])
@pytest.mark.parametrize("command", [["stats"], ["migrate"], ["enqueue", "send"], ["exec", "--", "true"], ["claim"]])
def test_a_server_that_is_not_there_is_told_in_one_line_without_the_password(
    shell: Shell, closed_port: int, scheme: str, command: list[str]
) -> None:
    name, *rest = command

    result = shell.run(name, "--url", f"{scheme}://ada:secret@{LOOPBACK}:{closed_port}", *rest)

    assert result.is_told_in_one_line, result
    assert "refused" in result.err
    assert "secret" not in result.err


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_a_worker_does_not_begin_on_a_server_that_is_not_there(shell: Shell, closed_port: int, scheme: str) -> None:
    shell.write("app.py", APP)

    result = shell.run("work", "app:jobs", "--url", f"{scheme}://{LOOPBACK}:{closed_port}", "--drain")

    assert result.code == 2
    assert "refused" in result.err
    assert "Traceback" not in result.err


@pytest.fixture
def schema(servers: Servers) -> Iterator[postgres_stores.Place]:
    """A schema on PostgreSQL that does not exist yet."""
    with postgres_stores.new_place(servers.shared(POSTGRES).url) as schema:
        yield schema


@pytest.fixture
def on_postgres(shell: Shell, schema: postgres_stores.Place, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell whose environment names a store on PostgreSQL that does not exist yet."""
    monkeypatch.setenv("TENURE_URL", schema.url)
    return shell


@pytest.fixture
def role(schema: postgres_stores.Place) -> Iterator[str]:
    """A role that may log in, and nothing else."""
    role = f"stranger_{uuid4().hex}"
    schema.execute(f"create role {role} login")
    yield role
    schema.execute(f"drop role {role}")


@starts_processes
def test_migrate_makes_the_tables_and_then_does_nothing(on_postgres: Shell) -> None:
    first, second = on_postgres.run("migrate", "--json"), on_postgres.run("migrate")

    assert (first.code, second.code) == (0, 0)
    assert first.records[0]["before"] == 0
    assert "is up to date" in second.out


@starts_processes
def test_what_migrate_prints_makes_the_tables_when_somebody_runs_it(
    on_postgres: Shell, schema: postgres_stores.Place
) -> None:
    printed = on_postgres.run("migrate", "--sql")
    schema.execute(printed.out)

    never = ("--url", f"{schema.url}&migrate=never")
    assert on_postgres.run("enqueue", "send", *never).code == 0
    assert on_postgres.run("stats", *never).code == 0
    assert on_postgres.run("migrate", "--sql").out == "-- the schema is up to date\n"


@starts_processes
def test_sql_prints_the_statements_with_the_names_of_this_store(
    on_postgres: Shell, schema: postgres_stores.Place
) -> None:
    listed, printed = on_postgres.run("sql", "--json"), on_postgres.run("sql", "claim")

    assert {"claim", "settle", "schema", "functions", "roles"} <= {each["operation"] for each in listed.records}
    assert "skip locked" in printed.out
    assert schema.schema in printed.out
    assert schema.execute("select 1 from pg_namespace where nspname = %s", schema.schema) == []


@starts_processes
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("dbname=nowhere", "does not exist"),
        ("user=nobody_of_this_name", "does not exist"),
        ("migrate=never", "run `tenure migrate`"),
    ],
)
def test_a_postgresql_that_does_not_let_us_in_is_told_in_one_line(
    shell: Shell, schema: postgres_stores.Place, option: str, said: str
) -> None:
    result = shell.run("stats", "--url", f"{schema.url}&{option}")

    assert result.is_told_in_one_line, result
    assert said in result.err


@starts_processes
def test_a_role_that_may_not_make_the_tables_is_told_who_may(
    shell: Shell, schema: postgres_stores.Place, role: str
) -> None:
    result = shell.run("migrate", "--url", f"{schema.url}&user={role}")

    assert result.is_told_in_one_line, result
    assert "run `tenure migrate` as a role with that right" in result.err


@starts_processes
def test_a_role_that_may_not_use_the_tables_is_told_so(
    on_postgres: Shell, schema: postgres_stores.Place, role: str
) -> None:
    on_postgres.run("migrate")

    result = on_postgres.run("stats", "--url", f"{schema.url}&user={role}")

    assert result.is_told_in_one_line, result
    assert "docs/postgres.md lists them" in result.err


@pytest.fixture(params=REDIS)
def prefix(request: pytest.FixtureRequest, servers: Servers) -> Iterator[redis_stores.Place]:
    """A prefix on Redis or Valkey, and in a cluster."""
    with redis_stores.new_place(servers.shared_redis(request.param).url) as prefix:
        yield prefix


@pytest.fixture
def own(servers: Servers) -> Iterator[OwnRedis]:
    """A server that causes no warnings."""
    with servers.own_redis(names()[-1], DURABLE) as server:
        yield server


@starts_processes
def test_migrate_on_redis_tells_the_layout_and_does_nothing(shell: Shell, prefix: redis_stores.Place) -> None:
    result = shell.run("migrate", "--url", prefix.url)

    assert result.code == 0
    assert result.out.endswith("is up to date; schema version 1\n")
    assert prefix.keys() == []


@pytest.mark.parametrize("url", ["redis://db", "redis+cluster://db"])
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sql", "claim"], "does not use SQL; name a store that does"),
        (["migrate", "--sql"], "only a PostgreSQL store can be migrated by hand"),
    ],
)
def test_what_is_only_for_sql_is_told_in_one_line_with_exit_2(
    shell: Shell, url: str, command: list[str], said: str
) -> None:
    result = shell.run(*command, "--url", url)

    assert result.is_told_in_one_line, result
    assert said in result.err


@starts_processes
@pytest.mark.parametrize(
    ("login", "rest", "said"),
    [
        (":secret@", "", "cannot log in to"),
        ("ada:secret@", "", "cannot log in to"),
        ("", "/12345", "has no such database"),
    ],
)
def test_a_redis_that_does_not_let_us_in_is_told_in_one_line_without_the_password(
    shell: Shell, own: OwnRedis, login: str, rest: str, said: str
) -> None:
    result = shell.run("stats", "--url", f"redis://{login}{LOOPBACK}:{own.port}{rest}")

    assert result.is_told_in_one_line, result
    assert said in result.err
    assert "secret" not in result.err


@starts_processes
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
    assert "stopped: 1 completed" in err
    assert "Traceback" not in err
