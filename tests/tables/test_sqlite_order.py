"""The claim order of rows, and the pages of `find`."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure.core.operations import Query
from tenure.errors import ConfigurationError
from tenure.testing import Clock
from tenure.testing.conformance.building import build_failure, build_release, ids_of, settle, take, take_one
from tests.tables.lite import BESIDE, KINDS, MAPPED, STATES, execute, opened

TABLE = (
    "create table orders (id integer primary key, status text default 'pending', urgency int, day, size int not null)"
)
DAYS = [None, "2026-01-01", "2026-01-02", 7, 1.5, b"x"]


@pytest.fixture
def mixed(path: Path) -> Path:
    """Rows with different values, some of them null."""
    draw = random.Random(7)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(TABLE)
        values = [(n, draw.choice([None, 0, 1, 5]), draw.choice(DAYS), draw.randrange(3)) for n in range(60)]
        db.executemany("insert into orders (id, urgency, day, size) values (?, ?, ?, ?)", values)
    return path


def sorted_by(path: Path, order: str) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [str(id) for (id,) in db.execute(f"select id from orders order by {order}")]


def shown(table: Any, *, newest_first: bool, limit: int) -> Iterator[str]:
    cursor: str | None = None
    while True:
        page = table.find(Query(newest_first=newest_first, limit=limit, cursor=cursor))
        yield from ids_of(page.jobs)
        if (cursor := page.cursor) is None:
            return


ORDERS = {
    "day": "day asc nulls last, id",
    "day desc": "day desc nulls last, id",
    "-size, day": "size desc, day asc nulls last, id",
    "id desc": "id desc",
    "size, id desc": "size, id desc",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order_by", ORDERS)
def test_rows_are_claimed_by_the_users_order_those_without_a_value_last(mixed: Path, order_by: str, kind: str) -> None:
    with opened(mixed, order_by=order_by, **KINDS[kind]) as table:
        taken = [id for _ in range(6) for id in ids_of(take(table, limit=10))]

    assert taken == sorted_by(mixed, ORDERS[order_by])


def test_the_higher_priority_comes_first_then_the_order(mixed: Path) -> None:
    columns: Any = {"state": "status", "priority": "urgency", "created_at": "day"}

    with opened(mixed, columns=columns, states=STATES) as table:
        taken = ids_of(take(table, limit=100))

    assert taken == sorted_by(mixed, "urgency desc nulls last, day asc nulls last, id")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order_by", ORDERS)
def test_pages_follow_the_order_in_both_directions_and_miss_nothing(mixed: Path, order_by: str, kind: str) -> None:
    expected = sorted_by(mixed, ORDERS[order_by])

    with opened(mixed, order_by=order_by, **KINDS[kind]) as table:
        assert list(shown(table, newest_first=False, limit=7)) == expected
        assert list(shown(table, newest_first=True, limit=7)) == expected[::-1]


@pytest.mark.parametrize("options", [MAPPED, BESIDE], ids=["mapped", "sidecar"])
def test_what_is_ahead_of_a_row_is_what_a_claim_takes_before_it(mixed: Path, options: dict[str, Any]) -> None:
    with opened(mixed, order_by="-size, day", **options) as table:
        ids = sorted_by(mixed, ORDERS["-size, day"])
        ahead = [found.ahead for id in ids if (found := table.explain(id, None, None)) is not None]

    assert ahead == list(range(60))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_backs_off_holds_nobody_up_and_keeps_its_place(path: Path, clock: Clock, kind: str) -> None:
    execute(path, "create table orders (id integer primary key, status text default 'pending')")
    execute(path, "insert into orders (id) values (1), (2), (3)")

    with opened(path, clock=clock, **KINDS[kind]) as table:
        settle(table, build_failure(take_one(table)))
        meanwhile = take_one(table)
        settle(table, build_release(meanwhile))
        clock.advance(10)

        assert meanwhile.id == "2"
        assert ids_of(take(table, limit=3)) == ["1", "2", "3"]


@pytest.mark.parametrize(
    "cursor",
    ["page two", "", "e30", "MQ", "WzEsMl0", "WyJcdWQ4MDAiXQ", "WzE4NDQ2NzQ0MDczNzA5NTUxNjE2XQ", "W1tdXQ"],
)
def test_a_cursor_that_no_page_gave_is_refused(path: Path, cursor: str) -> None:
    execute(path, "create table orders (id integer primary key, status text default 'pending')")

    with opened(path, **MAPPED) as table, pytest.raises(ConfigurationError, match="invalid cursor"):
        table.find(Query(cursor=cursor))


def test_a_table_is_asked_for_by_its_name(path: Path) -> None:
    execute(path, "create table orders (id integer primary key, status text default 'pending')")
    execute(path, "insert into orders (id) values (1)")

    with opened(path, **MAPPED) as table:
        assert take(table, types=("invoices",)) == []
        assert table.find(Query(queues=("invoices",))).jobs == []
        assert ids_of(table.find(Query(types=("orders",))).jobs) == ["1"]
        assert ids_of(take(table, types=("orders", "invoices"))) == ["1"]
