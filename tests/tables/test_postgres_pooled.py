"""Migrate and check a table through a transaction pooler, without leaving settings in its sessions."""

from collections.abc import Iterator

import psycopg
import pytest

from tenure.backends.tables.protocol import Severity
from tests.postgres.pooler import Pooler
from tests.postgres.stores import Place
from tests.servers.postgres import Server
from tests.tables.postgres_tables import new_schema, opened

LEFT = """
    select
        array(select name from pg_settings where source = 'session' and name <> 'application_name'),
        array(select locktype from pg_locks where pid = pg_backend_pid() and locktype = 'advisory')
"""


@pytest.fixture
def place(postgres: Server) -> Iterator[Place]:
    with new_schema(postgres.url) as place:
        yield place


@pytest.fixture
def pooler(postgres: Server) -> Iterator[Pooler]:
    with Pooler(postgres, sessions=3) as pooler:
        yield pooler


def test_a_table_is_made_fit_through_a_pooler(place: Place, pooler: Pooler) -> None:
    place.execute("create table S.orders (id bigint primary key, source text, state text)")
    place.execute("insert into S.orders values (1, 'web', 'running'), (2, 'web', 'queued')")

    with opened(place, at=pooler.url, where="source = :source", params={"source": "web"}) as table:
        done = table.migrate(adopt_running_after=600, functions=True)
        again = table.migrate(adopt_running_after=600, functions=True)
        findings = table.check()
        printed = table.sql()

    assert (bool(done), again) == (True, [])
    assert {each.severity for each in findings} == {Severity.NOTE}
    assert "claim_orders" in printed["functions"]
    with psycopg.connect(pooler.url) as connection:
        assert connection.execute(LEFT).fetchall() == [([], [])]
