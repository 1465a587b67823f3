"""A claim reads only the claimed rows and does not scan the table."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.tables.sqlite.column_checks import read_layout
from tenure.backends.tables.sqlite.sql_templates import fill_statement
from tenure.core.table.options import build_table_spec
from tests.tables.lite import BESIDE, MAPPED, STATES, opened, plan

ROWS = 20_000

TABLE = """
create table orders (
  id integer primary key,
  status text not null default 'pending',
  source text,
  urgency integer,
  created_at text,
  until integer,
  after text
)
"""
FILL = """
with recursive numbers (n) as (values (1) union all select n + 1 from numbers where n < {rows})
insert into orders (id, status, source, urgency, created_at)
select n, iif(n % 4 = 0, 'done', 'pending'), iif(n % 2, 'scraper', 'human'), n % 3, '2026-01-01' from numbers
"""

MAPPED_IN_FULL: dict[str, Any] = {
    "columns": {
        "state": "status",
        "priority": "urgency",
        "created_at": "created_at",
        "leased_until": "until",
        "run_at": "after",
    },
    "states": STATES,
}
FREE = {
    "by the key": (MAPPED, "SCAN orders USING INDEX tenure_orders_claim"),
    "by priority and age": (MAPPED_IN_FULL, "SCAN orders USING INDEX tenure_orders_claim"),
    "of one source": (
        {**MAPPED_IN_FULL, "where": "source = :source", "params": {"source": "human"}},
        "SEARCH orders USING INDEX tenure_orders_filter (source=?)",
    ),
}


@pytest.fixture
def large(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(TABLE)
        db.execute(FILL.format(rows=ROWS))
    return path


def plan_of(path: Path, operation: str, name: str, options: dict[str, Any]) -> str:
    with closing(sqlite3.connect(path)) as db:
        layout = read_layout(db, build_table_spec("orders", **options))
    values = {"now": "", "expired_by": "", "limit": 1, "token": "", "worker": "", "scan": 1}
    return plan(path, fill_statement(layout, operation, name), layout.values((1,), **values))


@pytest.mark.parametrize("kind", FREE)
def test_a_claim_reads_its_rows_in_order_from_an_index(large: Path, kind: str) -> None:
    options, expected = FREE[kind]

    with opened(large, **options):
        assert plan_of(large, "claim", "free", options) == expected


@pytest.mark.parametrize("name", ["expired", "of the worker"])
@pytest.mark.parametrize("options", [MAPPED_IN_FULL, BESIDE], ids=["mapped", "sidecar"])
def test_leases_are_found_among_those_that_run(large: Path, name: str, options: dict[str, Any]) -> None:
    with opened(large, **options):
        found = plan_of(large, "reap", name, options)

    assert "leases" in found.splitlines()[0]
    assert "SCAN orders\n" not in found


@pytest.mark.parametrize("options", [MAPPED_IN_FULL, BESIDE], ids=["mapped", "sidecar"])
def test_what_a_token_holds_is_found_by_it_however_much_runs(large: Path, options: dict[str, Any]) -> None:
    with opened(large, **options):
        found = plan_of(large, "claim", "held", options)

    assert "USING INDEX tenure_orders_tokens" in found.splitlines()[0]


def test_a_row_is_read_by_its_key(large: Path) -> None:
    with opened(large, **BESIDE):
        found = plan_of(large, "row", "row", BESIDE)

    assert "SCAN" not in found


def test_beside_a_companion_each_row_is_looked_up_there_by_its_key(large: Path) -> None:
    with opened(large, **BESIDE):
        found = plan_of(large, "claim", "free", BESIDE)

    assert "SEARCH orders_home USING PRIMARY KEY (id=?)" in found
