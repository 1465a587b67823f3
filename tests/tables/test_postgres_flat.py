"""The cost of an operation, in pages that the server touches, does not depend on the size of the table."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.protocol import SWEEP
from tenure.backends.tables.postgres import PostgresTable
from tenure.backends.tables.postgres import claim as claiming
from tenure.backends.tables.postgres import settle as settling
from tenure.backends.tables.row_batches import Reaping
from tenure.core.job import State
from tenure.core.operations import Query
from tenure.testing.conformance.building import build_completion, build_failure, build_release, extend, request, take
from tests.postgres.stores import BLOCKS, FLUSH
from tests.servers.postgres import Server
from tests.tables.postgres_shop import Shop, new_shop

FEW, MANY = 400, 20_000
OTHERS = 40
"""Tolerance in pages: growing or unvacuumed tables and indexes cost a few pages at any size."""

MADE = """
create table S.orders (
  id bigint primary key,
  source text not null,
  status text not null default 'queued',
  paid_at timestamptz not null default now()
)
with (autovacuum_enabled = off)
"""
FILLED = """
insert into S.orders (id, source, status, paid_at, tenure_run_at)
select
  n, (array['a', 'b'])[1 + n / 4 %% 2], (array['queued', 'completed', 'failed', 'queued'])[1 + n %% 4],
  now() - n * interval '1 second', case when n %% 16 = 3 then now() + interval '1 day' end
from generate_series(1, %s) n
"""
OPTIONS: dict[str, Any] = {
    "columns": {"state": "status"},
    "where": "source = :source",
    "params": {"source": "b"},
    "order_by": "paid_at",
}


def settle_some(table: PostgresTable) -> None:
    first, second, third = take(table, limit=3)
    table.settle([build_completion(first), build_failure(second, final=True), build_release(third)])


def extend_some(table: PostgresTable) -> None:
    for each in take(table, limit=3):
        extend(table, each.hold)


OPERATIONS: dict[str, Callable[[PostgresTable], object]] = {
    "claim": lambda table: take(table, limit=5),
    "settle": settle_some,
    "extend": extend_some,
    "reap": lambda table: table.reap(),
    "poll": lambda table: table.wait(None, None, 0.0),
    "find by id": lambda table: table.find(Query(ids=("1", "3"))),
    "find failed": lambda table: table.find(Query(states=frozenset({State.FAILED}), limit=5)),
}


@pytest.fixture
def tables(postgres: Server) -> Iterator[list[tuple[Shop, PostgresTable]]]:
    """A small and a large table."""
    with ExitStack() as stack:
        yield [filled(stack.enter_context(new_shop(postgres)), number) for number in (FEW, MANY)]


def filled(shop: Shop, number: int) -> tuple[Shop, PostgresTable]:
    shop.execute(MADE)
    table = shop.open(**OPTIONS)
    table.migrate()
    shop.execute(FILLED, number)
    shop.execute("vacuum analyze S.orders")
    shop.execute("select pg_stat_force_next_flush()")
    return shop, table


def cost(shop: Shop, table: PostgresTable, action: Callable[[PostgresTable], object]) -> int:
    """Return the number of pages touched by the second run, with warm caches."""
    action(table)
    before = touched(shop, table)
    action(table)
    return touched(shop, table) - before


def touched(shop: Shop, table: PostgresTable) -> int:
    table._database.execute([BoundQuery(FLUSH)])
    ((number,),) = shop.execute(BLOCKS, shop.schema)
    return int(number)


def test_no_operation_walks_the_table(tables: list[tuple[Shop, PostgresTable]]) -> None:
    few, many = ({name: cost(*each, action) for name, action in OPERATIONS.items()} for each in tables)

    assert {name: (few[name], many[name]) for name in OPERATIONS if many[name] > 2 * few[name] + OTHERS} == {}


def test_a_claim_goes_by_the_indexes_and_sorts_nothing_that_waits(postgres: Server) -> None:
    with new_shop(postgres) as shop:
        _, table = filled(shop, MANY)
        plans = plans_of(table)

    assert not any("Seq Scan" in plan for plan in plans)
    assert plans[1].count("Sort Key") == 1
    assert "Sort Key: job.sort_1, job.key_1" in plans[1]


def plans_of(table: PostgresTable) -> list[str]:
    """Return the plans of a claim and a settlement."""
    place = table._bound_table
    hold = take(table)[0]
    reap = settling.reap_query(place, Reaping(), SWEEP, token="a token")
    take_rows = claiming.take_query(place, request(), [])
    steps = [reap, take_rows, *settling.RowSettleBatch(place, [build_completion(hold)]).queries]
    with table._database.address.connect() as connection:
        return [
            "\n".join(line for (line,) in psycopg.RawCursor(connection).execute(explained(step)).fetchall())
            for step in steps
        ]


def explained(step: BoundQuery) -> bytes:
    return b"explain (generic_plan) " + step.statement.text
