"""The triggers of a table with a sidecar on SQLite: a new row and a new key take over nothing."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenure.backends.tables.protocol import Severity
from tenure.core.operations import HoldStatus
from tenure.testing.conformance.building import build_completion, extend, ids_of, job_of, settle, take, take_one
from tests.tables.lite import BESIDE, ORDERS, execute, given_orders, opened, rows


@pytest.mark.parametrize("recursive", ["on", "off"])
def test_insert_or_replace_makes_a_new_row(path: Path, recursive: str) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **BESIDE) as table:
        held, completed = take(table, limit=2)
        settle(table, build_completion(completed))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"pragma recursive_triggers = {recursive}")
            db.execute("insert or replace into orders (id, status) values (1, 'pending'), (2, 'pending')")

        assert (settle(table, build_completion(held)), extend(table, held.hold)) == (False, HoldStatus.LOST)
        assert ids_of(take(table, limit=5)) == ["1", "2"]


@pytest.mark.parametrize(
    "statement",
    [
        "insert or ignore into orders (id, status) values (1, 'pending')",
        "insert into orders (id, status) values (1, 'pending') on conflict do nothing",
        "insert into orders (id, status) values (1, 'pending') on conflict do update set source = 'shop'",
    ],
)
def test_an_insert_that_makes_no_row_leaves_the_claim_as_it_is(path: Path, statement: str) -> None:
    given_orders(path, "pending")

    with opened(path, **BESIDE) as table:
        taken = take_one(table)
        execute(path, statement)

        assert settle(table, build_completion(taken)) is True


@pytest.mark.parametrize("form", ["", "without rowid", "strict, without rowid"])
def test_tables_of_every_form_have_the_triggers(path: Path, form: str) -> None:
    execute(path, f"create table lines (shop text, number integer, is_open int, primary key (shop, number)) {form}")
    execute(path, "insert into lines values ('a', 1, 1), ('a', 2, 1)")

    with opened(path, "lines", id=("shop", "number"), sidecar="Claims", where="is_open") as table:
        taken = take(table, limit=2)
        execute(path, "insert or replace into lines values ('a', 1, 1)", "update lines set number = 3 where number = 2")

        assert [settle(table, build_completion(each)) for each in taken] == [False, False]
        assert ids_of(take(table, limit=5)) == ['["a","1"]']
        assert rows(path, "select number, fence from Claims order by number") == [(1, 1), (3, 1)]
        assert table.outstanding() == []


def test_a_row_whose_key_changes_its_case_keeps_its_state(path: Path) -> None:
    execute(path, "create table files (name text collate nocase primary key)", "insert into files values ('a')")

    with opened(path, "files", id="name", where="1", sidecar=True) as table:
        settle(table, build_completion(take_one(table)))
        execute(path, "update files set name = 'A'")

        assert (take(table), job_of(table, "A").state) == ([], "completed")


def test_triggers_that_were_lost_with_the_table_are_told_and_made_again(path: Path) -> None:
    given_orders(path, "pending")

    with opened(path, **BESIDE) as table:
        settle(table, build_completion(take_one(table)))
        execute(
            path,
            "create table copy as select * from orders",
            "drop table orders",
            ORDERS,
            "insert into orders select * from copy",
        )
        told = [each for each in table.check() if each.about == "trigger"]
        left = table.outstanding()
        table.migrate()
        execute(path, "delete from orders", "insert into orders (id, status) values (1, 'pending')")

        assert [each.severity for each in told] == [Severity.WARNING, Severity.WARNING]
        assert all("keys must not be reused" in each.text for each in told)
        assert [each.remedy for each in told] == left
        assert (table.outstanding(), ids_of(take(table))) == ([], ["1"])
        assert [each for each in table.check() if each.about == "trigger"] == []


def test_a_trigger_of_the_user_that_has_the_name_is_left_and_another_name_is_used(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, "create trigger tenure_orders_new_row after insert on orders begin select 1; end")

    with opened(path, **BESIDE) as table:
        taken = take_one(table)
        execute(path, "delete from orders", "insert into orders (id, status) values (1, 'pending')")

        assert settle(table, build_completion(taken)) is False
        assert len(rows(path, "select name from sqlite_master where type = 'trigger'")) == 3
        assert table.outstanding() == []
