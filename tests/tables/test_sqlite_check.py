"""Every problem of a table is reported with a remedy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.sqlite import library
from tenure.backends.tables.protocol import Finding, Severity
from tenure.testing.conformance.building import build_completion, settle, take, take_one
from tests.tables.lite import BESIDE, MAPPED, ORDERS, STATES, execute, given_orders, opened, rows


@pytest.fixture(autouse=True)
def sqlite_that_keeps_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent of the SQLite version of this machine: another test covers the WAL-reset bug."""
    monkeypatch.setattr(library, "has_wal_reset_bug", lambda _: False)


def examined(path: Path, *statements: str, is_migrated: bool = True, **options: Any) -> list[Finding]:
    """Return the findings after these statements on a correct table."""
    with opened(path, is_migrated=is_migrated, **{**MAPPED, **options}) as table:
        execute(path, *statements)
        return table.check()


def told(found: Sequence[Finding]) -> list[tuple[Severity, str]]:
    return [(each.severity, each.about) for each in found]


def test_nothing_is_found_in_a_table_that_is_fine(path: Path) -> None:
    given_orders(path, "pending", "done", "failed")

    with opened(path, done_if="status = 'x'", **MAPPED) as table:
        settle(table, build_completion(take_one(table)))
        take(table)

        assert table.check() == []


def test_missing_columns_are_one_error_and_each_missing_index_a_warning(path: Path) -> None:
    given_orders(path, "pending")

    found = examined(path, is_migrated=False)

    (error,) = (each for each in found if each.severity is Severity.ERROR)
    assert error.text.startswith("missing columns 'tenure_leased_until' for leased_until, 'tenure_fence' for fence")
    assert [each.severity for each in found] == sorted((each.severity for each in found), key=list(Severity).index)
    assert "create index" in str(found[-1].remedy)


def test_running_the_remedy_of_a_missing_index_makes_it(path: Path) -> None:
    given_orders(path, "pending")

    found = examined(path, "drop index tenure_orders_claim")

    assert told(found) == [(Severity.WARNING, "index")]
    execute(path, str(found[0].remedy))
    assert examined(path, is_migrated=False) == []


@pytest.mark.parametrize(
    ("name", "text"), [("recent", "is a view"), ("order", "does not exist"), ("words", "virtual table")]
)
def test_what_is_no_table_is_told_and_not_raised(path: Path, name: str, text: str) -> None:
    given_orders(path, "pending")
    execute(path, "create view recent as select * from orders", "create virtual table words using fts5(word)")

    with opened(path, name, is_migrated=False, **MAPPED) as table:
        (found,) = table.check()

    assert found.severity is Severity.ERROR
    assert text in found.text
    assert found.remedy


def test_states_that_mean_nothing_are_counted_with_an_example(path: Path) -> None:
    given_orders(path, "pending", "draft", "draft", None)

    found = examined(path)

    assert told(found) == [(Severity.WARNING, "state")] * 2
    assert found[0].text.startswith("2 rows (such as 2) have 'draft', which is not a state value")
    assert found[1].text.startswith("1 row (such as 4) has a null state")


@pytest.mark.parametrize(
    ("constraint", "refused"),
    [
        ("check (status in ('pending', 'processing', 'done'))", ["failed", "cancelled"]),
        ('check (length("status") < 8 /* ) */ or note is null)', []),
        ("check (status <> 'done)')", []),
        ("constraint named check (status not like 'p%')", ["queued", "running"]),
    ],
)
def test_constraints_that_refuse_a_word_are_told(path: Path, constraint: str, refused: list[str]) -> None:
    execute(
        path,
        "pragma journal_mode = wal",
        f"create table orders (id integer primary key, status text default 'done' {constraint}, note text)",
    )

    found = [each for each in examined(path) if each.about == "constraint"]

    assert [next(state for state in refused if f"(state {state})" in each.text) for each in found] == refused


def test_rows_that_run_without_a_lease_are_told_and_the_remedy_helps(path: Path) -> None:
    given_orders(path, "processing")

    (found,) = examined(path)

    assert "adopt_running_after" in str(found.remedy)
    with opened(path, **MAPPED) as table:
        table.migrate(adopt_running_after=600)
        assert table.check() == []


def test_leases_that_were_cleared_by_halves_are_told_and_the_remedies_help(path: Path) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, **MAPPED) as table:
        take(table, limit=2)
        execute(
            path, "update orders set status = 'pending' where id = 1", "update orders set status = 'done' where id = 2"
        )
        found = table.check()
        execute(path, *(str(each.remedy) for each in found))

        assert told(found) == [(Severity.WARNING, "lease")] * 2
        assert table.check() == []


def test_a_lease_that_another_hand_wrote_in_its_own_form_is_told(path: Path) -> None:
    given_orders(path, "processing")
    execute(path, "alter table orders add column until integer", "update orders set until = 'soon'")

    found = examined(path, columns={"state": "status", "leased_until": "until"}, states=STATES)

    assert "tenure did not write" in found[0].text


def test_triggers_are_told_by_name(path: Path) -> None:
    given_orders(path, "pending")

    found = examined(
        path,
        "create trigger stamped after update on orders begin update orders set source = 'x' where id = new.id; end",
    )

    assert told(found) == [(Severity.NOTE, "trigger")]
    assert "'stamped'" in found[0].text


def test_values_that_are_no_moments_keys_or_records_are_told(path: Path) -> None:
    execute(
        path,
        "pragma journal_mode = wal",
        "create table orders (id text primary key, status text default 'pending', after text)",
        "insert into orders (id, after) values (x'00', null), ('a', 'tomorrow')",
    )

    found = examined(
        path,
        "update orders set tenure_record = 'x' where id = 'a'",
        columns={"state": "status", "run_at": "after"},
        states=STATES,
    )

    assert told(found) == [(Severity.WARNING, about) for about in ("key", "column run_at", "column record")]


def test_a_journal_that_makes_readers_wait_is_a_note(path: Path) -> None:
    execute(path, ORDERS)

    found = examined(path)

    assert told(found) == [(Severity.NOTE, "journal mode")]


def test_a_file_whose_commits_may_be_lost_is_warned_of_and_the_remedy_helps(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "has_wal_reset_bug", lambda _: True)
    given_orders(path, "pending")

    found = examined(path)

    assert told(found) == [(Severity.WARNING, "journal mode")]
    assert "pragma journal_mode = delete" in str(found[0].remedy)
    execute(path, "pragma journal_mode = delete")
    assert examined(path) == []


def test_a_condition_that_cannot_be_used_is_an_error(path: Path) -> None:
    given_orders(path, "pending")

    found = examined(path, done_if="exists (select 1 from invoices)")

    assert told(found) == [(Severity.ERROR, "condition")]
    assert "no such table: invoices" in found[0].text


def test_duplicates_in_the_output_are_told_with_the_query_that_finds_them(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, "create table invoices (order_id integer)", "insert into invoices values (1), (1), (2)")

    found = examined(path, is_migrated=False, output="invoices.order_id")
    remedies = [str(each.remedy) for each in found if each.about == "output"]

    assert [rows(path, each) for each in remedies] == [[(1, 2)]]


def test_an_output_that_is_not_there_is_an_error(path: Path) -> None:
    given_orders(path, "pending")

    found = examined(path, is_migrated=False, output="invoices.order_id")

    assert (Severity.ERROR, "output") in told(found)


def test_a_generated_column_that_a_retry_is_to_set_is_an_error(path: Path) -> None:
    given_orders(path, "pending")
    execute(path, "alter table orders add column copy text as (source)")

    found = examined(path, on_retry={"copy": None})

    assert told(found) == [(Severity.ERROR, "on_retry")]


def test_a_companion_that_is_missing_has_orphans_or_completed_rows_still_chosen_is_told(path: Path) -> None:
    given_orders(path, "pending", "pending")

    with opened(path, is_migrated=False, **BESIDE) as table:
        missing = table.check()
        table.migrate()
        table.settle([build_completion(each) for each in take(table, limit=2)])
        execute(path, "delete from orders where id = 1")
        found = table.check()
        execute(path, str(found[1].remedy), "update orders set status = 'shipped'")

        assert (Severity.ERROR, "sidecar") in told(missing)
        assert told(found) == [(Severity.WARNING, "where"), (Severity.NOTE, "sidecar")]
        assert "does not make the condition false" in found[0].text
        assert table.check() == []


def test_text_that_is_not_utf_8_is_told_and_does_not_end_the_check(path: Path) -> None:
    given_orders(path, "pending", "pending", "pending")
    columns = {"state": "status", "created_at": "created_at"}

    found = examined(
        path,
        "update orders set created_at = cast(x'ff' as text) where id = 1",
        "update orders set status = cast(x'ff' as text) where id = 2",
        columns=columns,
    )

    assert [(each.about, each.text.partition(";")[0]) for each in found] == [
        ("state", r"1 row (such as 2) has '\udcff', which is not a state value"),
        ("column created_at", "1 row (such as 1) has a value in 'created_at' that is not a timestamp"),
    ]
