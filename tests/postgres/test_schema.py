"""The tables: constraints, creation, migration and rights."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tenure.backends.postgres import PostgreSQL, migrations, outstanding_sql
from tenure.core.operations import Schema
from tenure.errors import ConfigurationError, SchemaOutdated
from tenure.testing.conformance.building import build_record, take, take_one
from tenure.testing.conformance.racing import run_concurrently
from tests.postgres.stores import Place
from tests.servers.postgres import Server

GUIDE = Path(__file__).parents[2] / "docs" / "postgres.md"

RELATIONS = """
    select c.relname from pg_class c
    where c.relnamespace = %s::regnamespace and c.relkind in ('r', 'v', 'i', 'S')
"""
LEASE_COLUMNS = ("token", "worker", "leased_until")


@pytest.fixture
def place(empty_place: Place) -> Place:
    return empty_place


@pytest.fixture
def role(place: Place) -> Iterator[str]:
    """A login role that owns nothing."""
    role = f"app_{uuid4().hex}"
    place.execute(f"create role {role} login")
    yield role
    place.execute(f"drop owned by {role} cascade")
    place.execute(f"drop role {role}")


def as_role(place: Place, role: str) -> Place:
    return Place(place.server.replace("postgres@", f"{role}@"), place.schema)


def test_the_guide_names_every_table_and_index_and_no_other(place: Place, store: PostgreSQL) -> None:
    store.migrate()
    text = GUIDE.read_text()
    there = {name for (name,) in place.execute(RELATIONS, place.schema)}

    told = set(
        re.findall(
            r"`([a-z]+_[a-z_]+|jobs|finished|history|lanes|paused|schedules|workers|counts|versions|store|overview)`",
            text,
        )
    )

    assert there - {"job_sequence"} - told == set()
    assert {name for name in told if name.startswith(("jobs_", "finished_"))} - there == set()


def test_half_a_lease_cannot_be_stored(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record(id="queued"), build_record(id="running", priority=1)])
    take_one(store)

    for column in LEASE_COLUMNS:
        with pytest.raises(psycopg.errors.CheckViolation, match="leased_while_it_runs"):
            place.execute(f"update S.jobs set {column} = null where id = 'running'")
    for value in ("token = 't'", "worker = 'w'", "leased_until = now()", "cancel_requested = true"):
        with pytest.raises(psycopg.errors.CheckViolation, match="leased_while_it_runs"):
            place.execute(f"update S.jobs set {value} where id = 'queued'")


@pytest.mark.parametrize(
    "change",
    [
        "state = 'completed'",
        "state = 'failed'",
        "state = 'nonsense'",
        "state = 'running', is_ready = false",
        "finished_at = now()",
        "is_ready = null",
    ],
)
def test_a_state_that_does_not_fit_the_rest_cannot_be_stored(place: Place, store: PostgreSQL, change: str) -> None:
    store.enqueue([build_record(id="job")])

    with pytest.raises(psycopg.errors.IntegrityError):
        place.execute(f"update S.jobs set {change} where id = 'job'")


def test_the_tables_are_made_at_first_use_and_once(place: Place) -> None:
    store, other = place.open(), place.open()

    first, second = store.migrate(), other.migrate()

    store.close()
    other.close()
    assert (first, second) == (Schema(before=0, now=2), Schema(before=2, now=2))
    assert place.execute("select version, works_from from S.versions order by version") == [(1, 1), (2, 1)]


def test_eight_that_migrate_at_once_make_the_tables_once(place: Place) -> None:
    stores = [place.open() for _ in range(8)]

    found = run_concurrently([each.migrate for each in stores])

    for each in stores:
        each.close()
    assert [schema.before for schema in found].count(0) == 1
    assert len(place.execute("select version from S.versions")) == migrations.current_version()


def test_what_is_printed_makes_the_same_tables_and_functions(place: Place, postgres: Server) -> None:
    columns = """
        select table_name, column_name, data_type, is_nullable, collation_name from information_schema.columns
        where table_schema = %s order by 1, ordinal_position
    """
    indexes = "select replace(indexdef, %s, '') from pg_indexes where schemaname = %s order by 1"
    functions = "select proname, replace(prosrc, %s, '') from pg_proc where pronamespace = %s::regnamespace order by 1"
    printed = Place(postgres.url, f"tenure_{uuid4().hex}")
    store = place.open()
    store.migrate()
    text = outstanding_sql(printed.url, printed.url)

    with psycopg.connect(printed.server) as connection:
        connection.execute(text.encode())

    assert outstanding_sql(printed.url, printed.url) == ""
    assert printed.execute(columns, printed.schema) == place.execute(columns, place.schema)
    assert printed.execute(indexes, printed.schema, printed.schema) == place.execute(
        indexes, place.schema, place.schema
    )
    assert printed.execute(functions, printed.schema, printed.schema) == place.execute(
        functions, place.schema, place.schema
    )
    store.close()
    printed.execute(f"drop schema {printed.schema} cascade")


def test_a_store_that_must_not_migrate_says_what_is_missing_and_makes_nothing(place: Place) -> None:
    store = place.open("&migrate=never")

    with pytest.raises(SchemaOutdated, match=r"has no tables in .*migrate=never: run `tenure migrate`"):
        store.stats()

    store.close()
    assert place.execute("select 1 from pg_namespace where nspname = %s", place.schema) == []


def test_a_newer_schema_that_still_works_is_used_and_one_that_does_not_is_refused(place: Place) -> None:
    store = place.open()
    store.migrate()
    place.execute("insert into S.versions (version, works_from) values (7, 1)")
    older = place.open()

    older.enqueue([build_record()])

    place.execute("update S.versions set works_from = 6 where version = 7")
    too_old = place.open()
    with pytest.raises(
        SchemaOutdated, match=r"has schema 7, which requires a tenure that knows schema 6.*upgrade tenure"
    ):
        too_old.enqueue([build_record()])
    assert len(take(store, limit=9)) == 1
    for each in (store, older, too_old):
        each.close()


def test_a_role_that_may_not_make_tables_is_told_how_they_can_be_made(place: Place, role: str) -> None:
    store = as_role(place, role).open()

    with pytest.raises(SchemaOutdated, match=r"may not create tables.*permission denied.*`tenure migrate --sql`"):
        store.enqueue([build_record()])

    store.close()


def test_a_role_that_may_not_use_the_tables_is_told_so(place: Place, role: str) -> None:
    owner = place.open()
    owner.migrate()
    place.execute(f"grant usage on schema {place.schema} to {role}")
    place.execute(f"grant select on S.versions to {role}")
    store = as_role(place, role).open()

    with pytest.raises(ConfigurationError, match=r"the role lacks rights on .*docs/postgres.md"):
        store.enqueue([build_record()])

    store.close()
    owner.close()


def test_stores_in_two_schemas_of_one_database_never_see_each_other(place: Place, postgres: Server) -> None:
    other_place = Place(postgres.url, f"tenure_{uuid4().hex}")
    store, other = place.open(), other_place.open()
    store.enqueue([build_record(id="same")])
    other.enqueue([build_record(id="same"), build_record(id="another")])

    assert len(take(store, limit=9)) == 1
    assert len(take(other, limit=9)) == 2

    store.close()
    other.close()
    other_place.execute(f"drop schema {other_place.schema} cascade")
