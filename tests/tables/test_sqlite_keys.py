"""Keys of every kind, and their ids."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure.core.job import State
from tenure.core.operations import Move, Query, Refusal
from tenure.errors import ConfigurationError
from tenure.testing.conformance.building import build_completion, ids_of, job_of, settle, take, take_one
from tests.tables.lite import BESIDE, MAPPED, execute, opened, rows

KEYS = {
    "a row id": ("id integer primary key", ["1", "2"], "(1), (2)"),
    "an integer that is no row id": (
        "id int primary key",
        ["-5", "9223372036854775807"],
        "(-5), (9223372036854775807)",
    ),
    "a text": ("id text primary key", ["a b", "ä'\"1"], "('a b'), ('ä''\"1')"),
    "a varchar": ("id varchar(40) not null unique", ["007", "7"], "('007'), ('7')"),
    "a uuid": (
        "id uuid primary key",
        ["00000000-0000-0000-0000-000000000001", "e0000000-0000-0000-0000-000000000002"],
        "('00000000-0000-0000-0000-000000000001'), ('e0000000-0000-0000-0000-000000000002')",
    ),
}


@pytest.mark.parametrize("options", [MAPPED, BESIDE], ids=["mapped", "sidecar"])
@pytest.mark.parametrize("kind", KEYS)
def test_rows_are_claimed_and_ended_by_a_key_of_any_kind(path: Path, kind: str, options: dict[str, Any]) -> None:
    column, ids, values = KEYS[kind]
    execute(path, f"create table orders ({column}, status text default 'pending')")
    execute(path, f"insert into orders (id) values {values}")

    with opened(path, **options) as table:
        taken = take(table, limit=5)
        landed = table.settle([build_completion(each) for each in taken])

        assert sorted(ids_of(taken)) == sorted(ids)
        assert landed == [True, True]
        assert [job_of(table, id).state for id in ids] == [State.COMPLETED, State.COMPLETED]


@pytest.mark.parametrize("options", [MAPPED, BESIDE], ids=["mapped", "sidecar"])
def test_the_id_of_a_key_of_several_columns_is_a_list_of_its_texts(path: Path, options: dict[str, Any]) -> None:
    execute(
        path,
        "create table orders (shop text, number int, status text default 'pending', primary key (shop, number)) "
        "without rowid",
        "insert into orders (shop, number) values ('a', 1), ('a', 2), ('ä,\"b', 1)",
    )

    with opened(path, id=("shop", "number"), **options) as table:
        taken = take(table, limit=5)
        settle(table, build_completion(taken[1]))

        assert ids_of(taken) == ['["a","1"]', '["a","2"]', '["ä,\\"b","1"]']
        assert job_of(table, '["a","2"]').state is State.COMPLETED
        assert job_of(table, '["a","1"]').state is State.RUNNING
        assert ids_of(table.find(Query(ids=('["a","2"]', '["a","7"]'))).jobs) == ['["a","2"]']


@pytest.mark.parametrize(
    "id", ["nobody", "1.0", "01", "1 ", "-0", str(2**63), "99999999999999999999", "", "\ud800", "1\0", "[]"]
)
def test_an_id_that_no_key_can_be_is_of_no_row(path: Path, id: str) -> None:
    execute(
        path, "create table orders (id integer primary key, status text)", "insert into orders values (1, 'pending')"
    )

    with opened(path, **MAPPED) as table:
        (moved,) = table.move([id], Move.CANCEL)

        assert moved.refusal is Refusal.UNKNOWN
        assert table.find(Query(ids=(id,))).jobs == []
        assert table.explain(id, None, None) is None


@pytest.mark.parametrize("id", ['["a", "1"]', '["a",1]', '["a"]', '{"a":"1"}', "a", '["a","01"]'])
def test_an_id_of_several_columns_is_read_only_as_it_is_written(path: Path, id: str) -> None:
    execute(
        path,
        "create table orders (shop text, number int, status text, primary key (shop, number))",
        "insert into orders values ('a', 1, 'pending')",
    )

    with opened(path, id=("shop", "number"), **MAPPED) as table:
        assert table.explain(id, None, None) is None
        assert table.explain(json.dumps(["a", "1"], separators=(",", ":")), None, None) is not None


def test_a_key_that_compares_without_case_is_still_named_by_its_own_text(path: Path) -> None:
    execute(
        path,
        "create table orders (id text collate nocase primary key, status text)",
        "insert into orders values ('Ab', 'pending')",
    )

    with opened(path, **MAPPED) as table:
        assert table.find(Query(ids=("ab",))).jobs == []
        assert table.move(["AB"], Move.CANCEL)[0].refusal is Refusal.UNKNOWN
        assert settle(table, build_completion(take_one(table)))


def test_a_row_whose_key_is_no_text_or_number_is_left_alone(path: Path) -> None:
    execute(
        path,
        "create table orders (id text primary key, status text default 'pending')",
        "insert into orders (id) values (null), (x'00ff'), ('good')",
    )

    with opened(path, **MAPPED) as table:
        assert ids_of(take(table, limit=5)) == ["good"]
        assert ids_of(table.find(Query()).jobs) == ["good"]
        assert table.stats().total("due") == 0
        assert rows(path, "select count(*) from orders where status = 'pending'") == [(2,)]


@pytest.mark.parametrize(
    "column", ["id real primary key", "id blob primary key", "id primary key", "id decimal unique"]
)
def test_a_key_of_another_kind_is_refused(path: Path, column: str) -> None:
    execute(path, f"create table orders ({column}, status text)")

    with (
        opened(path, is_migrated=False, **MAPPED) as table,
        pytest.raises(ConfigurationError, match="declare the column as integer or text"),
    ):
        table.migrate()


def test_a_key_that_several_rows_may_have_is_refused(path: Path) -> None:
    execute(path, "create table orders (id integer, status text)", "create unique index u on orders (id) where id > 5")

    with opened(path, is_migrated=False, **MAPPED) as table, pytest.raises(ConfigurationError, match="keys may repeat"):
        take(table)


@pytest.mark.parametrize("options", [MAPPED, BESIDE], ids=["mapped", "sidecar"])
def test_a_row_whose_key_cannot_be_named_is_not_claimed_and_stands_in_nobodys_way(
    path: Path, options: dict[str, Any]
) -> None:
    execute(path, "create table orders (id text primary key, status text default 'pending')")
    execute(path, "insert into orders (id) values ('a' || char(0)), (cast(x'ff' as text)), ('z')")

    with opened(path, **options) as table:
        taken = take(table, limit=3)

        assert ids_of(taken) == ["z"]
        assert table.settle([build_completion(each) for each in taken]) == [True]


FOLDING_KEYS = {
    "column without case": ("id text collate nocase", "orders (id collate binary)"),
    "column without spaces": ("id text collate rtrim", "orders (id collate nocase)"),
    "primary key without case": ("id text collate nocase, primary key (id collate binary)", "orders (status, id)"),
}


@pytest.mark.parametrize("kind", FOLDING_KEYS)
def test_a_key_whose_unique_index_compares_in_another_way_is_refused(path: Path, kind: str) -> None:
    columns, index = FOLDING_KEYS[kind]
    execute(path, f"create table orders (status text, {columns})", f"create unique index u on {index}")

    with (
        opened(path, is_migrated=False, **MAPPED) as table,
        pytest.raises(ConfigurationError, match="no unique index on id of 'orders' with the collation of the column"),
    ):
        take(table)


def test_a_key_of_a_collation_of_another_program_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.create_collation("backwards", lambda one, other: (one < other) - (one > other))
        db.execute("create table orders (id text collate backwards primary key, status text)")

    with opened(path, is_migrated=False, **MAPPED) as table, pytest.raises(ConfigurationError, match="no unique index"):
        take(table)


@pytest.mark.parametrize(
    ("column", "index"), [("id text", "collate nocase"), ("id text collate nocase", ""), ("id text collate rtrim", "")]
)
def test_a_key_whose_unique_index_is_as_strict_as_the_column_is_claimed(path: Path, column: str, index: str) -> None:
    execute(
        path,
        f"create table orders ({column}, status text)",
        f"create unique index u on orders (id {index})",
        "insert into orders values ('a', 'pending'), ('b', 'pending')",
    )

    with opened(path, **MAPPED) as table:
        assert ids_of(take(table, limit=2)) == ["a", "b"]
