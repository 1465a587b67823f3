"""`tenure sql`, `migrate` and `doctor` for a Table."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tenure.backends.sqlite import library
from tests.cli.shell import Shell
from tests.servers.servers import Servers, shared_names
from tests.tables.postgres_tables import new_schema
from tests.tiers import starts_processes

APP = """
import tenure

jobs = tenure.Jobs("sqlite:///tenure.db?synchronous=normal")
orders = tenure.Table("sqlite:///app.db", "orders", order_by="created_at")
awaited = orders.aio
"""

ORDERS = "create table orders (id integer primary key, state text not null default 'queued', created_at text)"


@pytest.fixture
def app(shell: Shell) -> Shell:
    """A shell in a folder with an app that has a Table, not yet migrated."""
    shell.write("app.py", APP)
    execute(shell, ORDERS)
    return shell


@pytest.fixture
def on_a_server(shell: Shell, servers: Servers) -> Iterator[Shell]:
    """A shell with an app that has a Table on PostgreSQL."""
    with new_schema(servers.shared(shared_names()[-1]).url) as place:
        place.execute("create table S.orders (id bigint primary key)")
        shell.write("app.py", f'import tenure\norders = tenure.Table("{place.server}", "{place.schema}.orders")\n')
        yield shell


def execute(shell: Shell, *statements: str) -> None:
    with closing(sqlite3.connect(shell.folder / "app.db")) as db, db:
        for statement in statements:
            db.execute(statement)


def test_migrate_adds_what_the_table_lacks_and_then_does_nothing(app: Shell) -> None:
    printed = app.run("migrate", "app:orders", "--sql")
    done = app.run("migrate", "app:orders")
    again, told = app.run("migrate", "app:orders", "--json"), app.run("migrate", "app:orders", "--sql")

    assert (printed.code, done.code) == (0, 0)
    assert done.out.strip() == printed.out.strip()
    assert 'add column "tenure_fence"' in done.out
    assert again.records == [{"table": "orders", "statements": []}]
    assert told.out == "-- nothing to migrate\n"


def test_what_migrate_prints_can_be_run_by_somebody_else(app: Shell) -> None:
    printed = app.run("migrate", "app:orders", "--sql")

    with closing(sqlite3.connect(app.folder / "app.db")) as db:
        db.executescript(printed.out)

    assert "is up to date" in app.run("migrate", "app:orders").out


def test_migrate_adopts_rows_that_run_without_a_lease(app: Shell) -> None:
    execute(app, "insert into orders (state) values ('running')")

    done = app.run("migrate", "app:orders", "--adopt-running-after", "10m", "--json")

    assert done.code == 0
    assert any("update" in each for each in done.records[0]["statements"])
    assert app.run("doctor", "app:orders").code == 0


def test_the_twin_and_the_option_name_the_same_table(app: Shell) -> None:
    by_argument, by_option = app.run("sql", "claim", "app:awaited"), app.run("sql", "claim", "--app", "app:orders")

    assert by_argument.code == 0
    assert by_argument.out == by_option.out


def test_sql_lists_the_operations_of_a_table_and_prints_one_with_its_names(app: Shell) -> None:
    app.run("migrate", "app:orders")

    listed, printed = app.run("sql", "app:orders", "--json"), app.run("sql", "claim", "app:orders")

    assert {"claim", "extend", "settle", "reap", "schema"} <= {each["operation"] for each in listed.records}
    assert all(each["purpose"] for each in listed.records)
    assert '"tenure_fence"' in printed.out


def test_sql_prints_what_a_table_lacks_before_it_can_be_claimed_from(app: Shell) -> None:
    printed = app.run("sql", "schema", "app:orders")

    assert printed.code == 0
    assert "tenure_fence" in printed.out


def test_functions_of_a_table_in_sqlite_are_refused_with_what_to_do(app: Shell) -> None:
    printed, installed = app.run("sql", "functions", "app:orders"), app.run("migrate", "app:orders", "--functions")

    assert printed.is_told_in_one_line
    assert "functions need PostgreSQL" in printed.err
    assert installed.is_told_in_one_line


def test_doctor_tells_what_keeps_rows_from_being_claimed_within_80_columns(app: Shell) -> None:
    told = app.run("doctor", "app:orders")

    assert told.code == 1
    assert "error: column" in told.out
    assert "tenure_fence" in told.out
    assert max(map(len, told.lines)) <= 80


def test_doctor_finds_nothing_wrong_with_a_table_that_was_migrated(app: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "has_wal_reset_bug", lambda _: False)
    app.run("migrate", "app:orders")
    execute(app, "pragma journal_mode = wal")

    told = app.run("doctor", "app:orders")

    assert (told.code, told.out) == (0, "app:orders: no problems found\n")


def test_a_warning_fails_only_if_doctor_is_strict(app: Shell) -> None:
    app.run("migrate", "app:orders")
    execute(app, "insert into orders (state) values ('running')")

    told, strict = app.run("doctor", "app:orders", "--json"), app.run("doctor", "app:orders", "--strict")

    assert (told.code, strict.code) == (0, 1)
    assert {each["target"] for each in told.records} == {"app:orders"}
    assert {"severity", "about", "text", "remedy"} <= set(told.records[0])


def test_doctor_tells_of_a_jobs_that_its_store_answers(app: Shell) -> None:
    app.run("migrate")

    told = app.run("doctor", "app:jobs", "app:orders", "--json")

    assert told.code == 1
    assert told.records[0]["target"] == "app:jobs"
    assert "the store responds; schema version" in told.records[0]["text"]


@starts_processes
def test_a_table_on_a_server_is_examined_migrated_and_printed(on_a_server: Shell) -> None:
    ill = on_a_server.run("doctor", "app:orders")
    done = on_a_server.run("migrate", "app:orders", "--functions")
    well = on_a_server.run("doctor", "app:orders")
    printed = on_a_server.run("sql", "functions", "app:orders")

    assert (ill.code, done.code, well.code) == (1, 0, 0)
    assert "error: columns" in ill.out
    assert "no problems found" in well.out
    assert "create or replace function" in printed.out
    assert printed.out.partition("create or replace function")[2] in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["doctor"], "missing argument"),
        (["doctor", "app"], "use MODULE:OBJECT, such as app:jobs"),
        (["doctor", "app:nothing"], "has no 'nothing'"),
        (["doctor", "app:APP"], "has no 'APP'"),
        (["doctor", "app:tenure"], "app:tenure has type module; pass a Jobs or a Table"),
        (["doctor", "app:jobs"], "no store"),
        (["sql", "clam", "app:orders"], "did you mean 'claim'?"),
        (["sql", "claim", "app:orders", "--app", "app:jobs"], "not both"),
        (["sql", "claim", "app:orders", "--url", "sqlite:///app.db"], "--url cannot be used with app:orders"),
        (["sql", "claim", "no:where"], "no module 'no'"),
        (["migrate", "--functions"], "--functions needs a Table"),
        (["migrate", "app:jobs", "--adopt-running-after", "10m"], "--adopt-running-after needs a Table"),
        (["migrate", "app:orders", "--adopt-running-after", "soon"], "invalid duration 'soon'"),
        (["migrate", "app:missing"], "did you mean 'orders'?"),
    ],
)
def test_misuse_is_told_in_one_line_with_exit_2(app: Shell, arguments: list[str], said: str) -> None:
    app.write("app.py", f'{APP}\nmissing = tenure.Table("sqlite:///app.db", "oders")\n')

    result = app.run(*arguments)

    assert result.is_told_in_one_line, result
    assert said in result.err
