"""Unusual names, and names that do not exist."""

from pathlib import Path
from typing import Any

import pytest

from tenure.core.job import State
from tenure.core.operations import Move, Query
from tenure.core.table.spec import quote_identifier
from tenure.errors import ConfigurationError, StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    build_release,
    ids_of,
    job_of,
    settle,
    take,
    take_one,
)
from tests.tables.lite import MAPPED, ORDERS, execute, given_orders, opened, rows

ODD = [
    '"; drop table x; --',
    "order",
    'sele"ct',
    "a b",
    "a:b",
    "why?",
    "{}",
    "{where}",
    "%s",
    "'",
    "ORDER_home",
    "x -- \n y",
]


@pytest.mark.parametrize("kind", ["mapped", "sidecar"])
@pytest.mark.parametrize("name", ODD)
def test_a_table_and_its_columns_may_have_any_name(path: Path, clock: Clock, name: str, kind: str) -> None:
    key, state, extra = (quote_identifier(f"{name}{n}") for n in range(3))
    execute(
        path,
        f"create table {quote_identifier(name)} ({key} text primary key, {state} text default 'queued', {extra} text)",
        f"insert into {quote_identifier(name)} ({key}, {extra}) values ('a', '1'), ('b', null), ('c', '3')",
    )
    options: dict[str, Any] = {
        "id": f"{name}0",
        "schema": "main",
        "order_by": [f"{name}2"],
        "where": f"{quote_identifier(name)}.{state} <> :none and {extra} is not '4'",
        "params": {"none": ":x ?"},
        "done_if": f"{extra} = '1'",
        "on_retry": {f"{name}2": "again"},
        **({"sidecar": True} if kind == "sidecar" else {"columns": {"state": f"{name}1"}}),
    }

    with opened(path, name, clock=clock, **options) as table:
        first, second, third = take(table, limit=5, lease=10)
        table.settle([build_failure(second, final=True), build_release(third)])
        table.move(["c"], Move.RETRY)
        clock.advance(11)
        table.reap()
        found = {each.id: each.state for each in table.find(Query(limit=2, newest_first=False)).jobs}

        assert ids_of([first, second, third]) == ["a", "c", "b"]
        assert found == {"a": State.COMPLETED, "c": State.QUEUED}
        assert table.stats().total("recovered") == 1
        assert job_of(table, "c").payload[f"{name}2"] == "again"
        assert table.outstanding() == []
        assert table.sql()["claim"]
        assert [each for each in table.check() if each.severity == "error"] == []


def test_names_are_the_same_whatever_their_case(path: Path) -> None:
    execute(
        path,
        'create table "Orders" ("ID" integer primary key, "Status" text)',
        "insert into orders values (1, 'pending')",
    )

    with opened(path, "ORDERS", id="id", columns={"state": "STATUS"}, states={"queued": "pending"}) as table:
        taken = take_one(table)

        assert taken.job.payload == {"ID": 1, "Status": "running"}
        assert settle(table, build_completion(taken))


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("order", {}, "table 'order' does not exist in this file; did you mean 'orders'"),
        ("orders", {"id": "idd"}, "no column 'idd'; did you mean 'id'"),
        (
            "orders",
            {"order_by": "createdat"},
            "order_by: table .* has no column 'createdat'; did you mean 'created_at'",
        ),
        (
            "orders",
            {"on_retry": {"sauce": None}},
            "on_retry: table .* has no column 'sauce'; did you mean 'source'",
        ),
        ("orders", {"columns": {"created_at": "creatd_at"}}, "no column 'creatd_at'; did you mean 'created_at'"),
        ("orders", {"columns": {"state": "stattus"}}, "has no column 'stattus' for role 'state', but has 'status'"),
        ("orders", {}, "has no column 'state' for role 'state', but has 'status'"),
        ("recent", {}, "'recent' is a view; name the underlying table"),
        ("words", {"id": "word"}, "'words' is a virtual table; name the underlying table"),
        ("temp.orders", {}, "is not in schema main"),
        ("orders", {**MAPPED, "where": "sorce = 1"}, "invalid where of table 'orders': no such column: sorce"),
        ("orders", {"sidecar": "orders", "where": "1"}, "is the table itself"),
        ("orders", {"sidecar": "recent", "where": "1"}, "sidecar 'recent' is a view"),
        ("orders", {**MAPPED, "output": "invoices.order_id"}, "table 'invoices' does not exist"),
        ("orders", {**MAPPED, "output": "receipts.order"}, "has no column 'order'; the table has order_id"),
        (
            "orders",
            {**MAPPED, "on_retry": {"source": [1]}},
            r"on_retry\['source'\] is \[1\], which SQLite cannot store",
        ),
    ],
)
def test_what_is_not_there_or_cannot_be_used_is_told_with_the_nearest(
    path: Path, name: str, options: dict[str, Any], told: str
) -> None:
    given_orders(path, "pending")
    execute(
        path,
        "create view recent as select * from orders",
        "create virtual table words using fts5(word)",
        "create table receipts (order_id integer)",
    )
    with opened(path, name, is_migrated=False, **options) as table, pytest.raises(ConfigurationError, match=told):
        table.migrate()
        take(table)


def test_before_anything_is_claimed_it_is_told_what_is_missing_and_how_to_add_it(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, is_migrated=False, **MAPPED) as table:
        with pytest.raises(ConfigurationError, match=r"missing columns .*'tenure_fence' for fence.*migrate\(\)"):
            take(table)

        assert rows(path, "select name from pragma_table_info('orders')") == [
            ("id",), ("status",), ("source",), ("created_at",)
        ]  # fmt: skip


def test_a_file_that_is_not_there_is_told_and_not_made(path: Path) -> None:
    with opened(path, is_migrated=False) as table, pytest.raises(StoreUnavailable, match="no database at"):
        take(table)

    assert list(path.parent.iterdir()) == []


def test_nothing_of_tenures_own_store_is_made_in_the_users_file(path: Path) -> None:
    execute(path, ORDERS)

    with opened(path, **MAPPED) as table:
        take(table)

    assert rows(path, "select name from sqlite_master where type = 'table'") == [("orders",)]
    assert rows(path, "pragma application_id") == [(0,)]
    assert rows(path, "pragma journal_mode") == [("delete",)]


def test_a_change_of_the_table_is_seen_by_a_handle_that_is_open(path: Path) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **MAPPED) as table:
        before = take_one(table).job.payload
        execute(path, "alter table orders add column note text default 'new'")
        after = take_one(table).job.payload

        assert "note" not in before
        assert after["note"] == "new"
