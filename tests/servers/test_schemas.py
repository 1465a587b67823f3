"""Schemas are reused only with the definitions of `migrate`; connections are reused only while open."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.postgres.stores import Place
from tests.servers.postgres import Server
from tests.servers.schemas import Schemas
from tests.servers.sessions import Sessions, by_hand

CHANGES = {
    "a column": "alter table S.jobs add column more text",
    "an index": "drop index S.jobs_tokens",
    "a setting": "alter table S.jobs set (fillfactor = 50)",
    "a constraint": "alter table S.jobs add check (attempts >= 0)",
    "a trigger": "create trigger t before update on S.jobs for each row "
    "execute function suppress_redundant_updates_trigger()",
    "a function": "create or replace function S.more() returns integer language sql as 'select 1'",
    "a right": "grant select on S.jobs to public",
    "a right on the schema": "grant usage on schema S to public",
}


@pytest.fixture
def schemas() -> Iterator[Schemas]:
    with closing(Schemas()) as schemas:
        yield schemas


def test_schemas_that_were_only_written_to_are_used_again_and_are_empty(postgres: Server, schemas: Schemas) -> None:
    taken = [schemas.take(postgres), schemas.take(postgres)]
    for schema in taken:
        place = Place(postgres.url, schema)
        place.execute("create table S.effects (job text); insert into S.paused (queue) values ('mail')")
        schemas.give_back(postgres, schema)

    again = [schemas.take(postgres), schemas.take(postgres)]
    tables = "select table_name from information_schema.tables where table_schema = %s and table_name = 'effects'"

    assert sorted(again) == sorted(taken)
    assert [Place(postgres.url, each).execute("select count(*) from S.paused") for each in again] == [[(0,)]] * 2
    assert [Place(postgres.url, each).execute(tables, each) for each in again] == [[], []]


@pytest.mark.parametrize("change", CHANGES)
def test_a_schema_that_was_changed_is_dropped(postgres: Server, schemas: Schemas, change: str) -> None:
    schema = schemas.take(postgres)
    place = Place(postgres.url, schema)
    place.execute(CHANGES[change].replace("schema S", f"schema {schema}"))

    schemas.give_back(postgres, schema)

    assert place.execute("select from pg_namespace where nspname = %s", schema) == []


def test_a_schema_that_somebody_has_locked_is_dropped(postgres: Server, schemas: Schemas) -> None:
    """Slow: `give_back` waits for a lock."""
    schema = schemas.take(postgres)
    place = Place(postgres.url, schema)
    with closing(psycopg.connect(postgres.url)) as other:
        other.execute(f"lock table {schema}.jobs".encode())
        # Longer than the lock timeout for emptying; dropping waits without a timeout.
        other.execute("set local idle_in_transaction_session_timeout = '4s'")

        schemas.give_back(postgres, schema)

    assert place.execute("select from pg_namespace where nspname = %s", schema) == []


def test_a_session_is_used_again_unless_it_is_lost_or_in_a_transaction(postgres: Server) -> None:
    with closing(Sessions()) as sessions:
        with sessions.one(postgres.url) as first, sessions.one(postgres.url) as second:
            assert first is not second
        with sessions.one(postgres.url) as again:
            assert again in {first, second}
            pid = again.info.backend_pid
        with by_hand(postgres.url) as killer:
            killer.execute("select pg_terminate_backend(%s, 60000)", [pid])
        with sessions.one(postgres.url) as other:
            assert other.execute("select 1").fetchone() == (1,)
            other.execute("begin")
        with sessions.one(postgres.url) as last:
            assert last is not other


def test_what_is_set_by_hand_is_not_set_for_the_next(postgres: Server) -> None:
    with by_hand(postgres.url) as connection:
        pid = connection.info.backend_pid
        connection.execute("set lock_timeout = '7s'")

    with by_hand(postgres.url) as connection:
        assert connection.info.backend_pid == pid
        assert connection.execute("show lock_timeout").fetchone() == ("0",)
