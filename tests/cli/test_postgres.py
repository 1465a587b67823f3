"""The command line on PostgreSQL: the same words, and what can be wrong with a server told in a line."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.cli.shell import Result, Shell
from tests.postgres.stores import Place, new_place
from tests.servers.addresses import free_port
from tests.servers.servers import Servers, shared_names

PATIENCE = 40.0

APP = """
import tenure

jobs = tenure.Jobs()

@jobs.task
def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.fixture
def place(servers: Servers) -> Iterator[Place]:
    with new_place(servers.shared(shared_names()[-1]).url) as place:
        yield place


@pytest.fixture
def here(shell: Shell, place: Place, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell where the environment names a store that nobody has made yet."""
    monkeypatch.setenv("TENURE_URL", place.url)
    return shell


@pytest.fixture
def role(place: Place) -> Iterator[str]:
    """A role that may log in, and nothing else."""
    role = f"stranger_{uuid4().hex}"
    place.execute(f"create role {role} login")
    yield role
    place.execute(f"drop role {role}")


def is_told_in_one_line(result: Result) -> bool:
    return (result.code, result.out, result.err.count("\n")) == (2, "", 1) and result.err.startswith("tenure: ")


def test_a_job_is_enqueued_counted_listed_and_explained(here: Shell) -> None:
    enqueued = here.run("enqueue", "send", '{"to": "Åsa ☃"}', "--queue", "mail", "--id", "m7")
    stats, listed = here.run("stats", "--json"), here.run("jobs", "list", "--json")
    shown, explained = here.run("jobs", "show", "m7", "--json"), here.run("explain", "m7", "--json")

    assert [each.code for each in (enqueued, stats, listed, shown, explained)] == [0] * 5
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


def test_migrate_makes_the_tables_and_then_does_nothing(here: Shell) -> None:
    first, second = here.run("migrate", "--json"), here.run("migrate")

    assert (first.code, second.code) == (0, 0)
    assert first.records[0]["before"] == 0
    assert "there was nothing to do" in second.out


def test_what_migrate_prints_makes_the_tables_when_somebody_runs_it(here: Shell, place: Place) -> None:
    printed = here.run("migrate", "--sql")
    place.execute(printed.out)

    never = ("--url", f"{place.url}&migrate=never")
    assert here.run("enqueue", "send", *never).code == 0
    assert here.run("stats", *never).code == 0
    assert here.run("migrate", "--sql").out == "-- the schema is up to date\n"


def test_sql_prints_the_statements_with_the_names_of_this_store(here: Shell, place: Place) -> None:
    listed, printed = here.run("sql", "--json"), here.run("sql", "claim")

    assert {"claim", "settle", "schema", "functions", "roles"} <= {each["operation"] for each in listed.records}
    assert "skip locked" in printed.out
    assert place.schema in printed.out
    assert place.execute("select 1 from pg_namespace where nspname = %s", place.schema) == []


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("dbname=nowhere", "does not exist"),
        ("user=nobody_of_this_name", "does not exist"),
        ("scheema=jobs", "did you mean 'schema'?"),
        ("schema=Jobs", "schema must be a name of lower-case letters"),
        ("timeout=soon", "timeout must be a number from 0.1 to 3600, not 'soon'"),
        ("connections=0", "connections must be a number from 1 to 1000, not '0'"),
        ("migrate=later", "migrate must be"),
        ("migrate=never", "run `tenure migrate`"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_in_one_line_with_exit_2(
    here: Shell, place: Place, option: str, said: str
) -> None:
    result = here.run("stats", "--url", f"{place.url}&{option}")

    assert is_told_in_one_line(result), result
    assert said in result.err


def test_a_server_that_is_not_there_is_told_in_one_line_without_the_password(shell: Shell) -> None:
    result = shell.run("stats", "--url", f"postgresql://ada:secret@127.0.0.1:{free_port()}/app")

    assert is_told_in_one_line(result), result
    assert "refused" in result.err
    assert "secret" not in result.err


def test_a_role_that_may_not_make_the_tables_is_told_who_may(here: Shell, place: Place, role: str) -> None:
    result = here.run("migrate", "--url", f"{place.url}&user={role}")

    assert is_told_in_one_line(result), result
    assert "run `tenure migrate` as one that may" in result.err


def test_a_role_that_may_not_use_the_tables_is_told_so(here: Shell, place: Place, role: str) -> None:
    here.run("migrate")

    result = here.run("stats", "--url", f"{place.url}&user={role}")

    assert is_told_in_one_line(result), result
    assert "docs/postgres.md lists the rights" in result.err


def test_a_worker_does_not_begin_on_a_server_that_is_not_there(shell: Shell) -> None:
    shell.write("app.py", APP)

    result = shell.run("work", "app:jobs", "--url", f"postgresql://127.0.0.1:{free_port()}/app", "--drain")

    assert result.code == 2
    assert "refused" in result.err
    assert "Traceback" not in result.err
