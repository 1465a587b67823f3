"""Operator methods of a table, and the ways to name the database of a table."""

from typing import Any
from uuid import UUID

import pytest

import tenure
from tests.tables.client_shop import Shop, SQLiteShop


def test_rows_are_found_by_what_became_of_them(shop: Shop) -> None:
    shop.given(3)

    with shop.table(backoff=tenure.Backoff(first=0)) as orders:
        for _ in range(2):
            (claim,) = orders.claim()
            claim.fail("the printer is out of paper")
        found = [job.id for job in orders.find(attempts_over=1)]
        by_error = [job.payload["id"] for job in orders.find(error="out of paper")]
        oldest = [job.id for job in orders.find(newest_first=False)]

    assert (found, by_error, oldest) == (["1"], [1], ["1", "2", "3"])


def test_a_retry_clears_what_it_is_told_and_keeps_the_reason(shop: Shop) -> None:
    shop.given(2)

    with shop.table(on_retry={"resolved_by": None}) as orders:
        for claim in orders.claim(limit=2):
            claim.fail("no", final=True)
        shop.rows("update {orders} set resolved_by = 'ada'")
        moved = orders.retry([1], reason="the printer is back")
        job = orders.get(1)

    assert [(each.id, each.moved) for each in moved] == [("1", True)]
    assert job is not None
    assert (job.state, job.attempts, job.payload["resolved_by"]) == ("queued", 0, None)
    assert (job.history[-1].outcome, job.history[-1].error) == ("operator", "retry: the printer is back")
    assert shop.rows("select resolved_by from {orders} order by id") == [(None,), ("ada",)]


def test_all_failed_rows_are_retried_if_that_is_said(lite_shop: Shop) -> None:
    lite_shop.given(3)

    with lite_shop.table() as orders:
        for claim in orders.claim(limit=2):
            claim.fail("no", final=True)
        with pytest.raises(
            tenure.ConfigurationError, match="in exactly one way: ids, or filters such as attempts_over=3"
        ):
            orders.retry()
        moved = orders.retry(all=True)

    assert sorted(each.id for each in moved) == ["1", "2"]


def test_a_row_that_waits_is_cancelled_and_one_that_runs_is_asked(shop: Shop) -> None:
    shop.given(2)

    with shop.table() as orders:
        (claim,) = orders.claim()
        orders.cancel([1, 2], reason="sold out")
        claim.extend()
        asked = claim.cancel_requested
        claim.release()

    assert asked
    assert shop.statuses() == ["cancelled", "cancelled"]


def test_rows_are_named_by_their_keys_or_by_their_ids(lite_shop: Shop) -> None:
    lite_shop.given(2)

    with lite_shop.table() as orders:
        named = [orders.get(1), orders.get("1")]
        cancelled = [orders.cancel(1), orders.cancel(each for each in ("2", 2))]

    assert [job is not None and job.id for job in named] == ["1", "1"]
    assert [[each.id for each in moved] for moved in cancelled] == [["1"], ["2"]]


def test_a_key_of_several_columns_is_a_tuple(lite_shop: Shop) -> None:
    lite_shop.rows("create table lines (shop text, number integer, state text, primary key (shop, number))")
    lite_shop.rows("insert into lines values ('a', 1, 'queued'), ('a', 2, 'queued')")

    with tenure.Table(lite_shop.url, "lines", id=("shop", "number")) as lines:
        lines.migrate()
        job = lines.get(("a", 1))
        one, several = lines.cancel(("a", 1)), lines.cancel([("a", 1), '["a","2"]'])

    assert job is not None
    assert job.id == '["a","1"]'
    assert [each.moved for each in [*one, *several]] == [True, False, True]


@pytest.mark.parametrize("key", [1.5, True, None, (1, 2), b"1"])
def test_what_is_no_key_is_refused(lite_shop: Shop, key: Any) -> None:
    with lite_shop.table() as orders, pytest.raises(tenure.ConfigurationError, match="must be the key of a row"):
        orders.get(key)


@pytest.mark.parametrize("keys", [{"a": 1}, b"1", 1.5])
def test_what_are_no_keys_are_refused(lite_shop: Shop, keys: Any) -> None:
    with lite_shop.table() as orders, pytest.raises(tenure.ConfigurationError, match="ids must be a key or"):
        orders.retry(keys)


def test_a_key_that_no_row_has_is_of_no_row(lite_shop: Shop) -> None:
    with lite_shop.table() as orders:
        (moved,) = orders.retry([UUID(int=7)])

        assert orders.get("nobody") is None
        assert orders.explain("nobody") is None
        assert moved.refusal is tenure.Refusal.UNKNOWN


def test_why_a_row_is_not_running_is_told_also_if_where_does_not_choose_it(shop: Shop) -> None:
    shop.given(1)
    (passed_over,) = shop.given(1, source="by hand")

    with shop.table() as orders:
        chosen, other = orders.explain(1), orders.explain(passed_over)

    assert chosen is not None
    assert chosen.verdict == "queued and due: the next claim takes it"
    assert other is not None
    assert other.verdict == "not running: `where` does not select it"


def test_what_is_missing_is_told_and_added_once(shop: Shop) -> None:
    shop.given(1)
    orders = tenure.Table(shop.url, shop.named("orders"), columns={"state": "status"}, states={"queued": "pending"})

    with orders:
        with pytest.raises(tenure.ConfigurationError, match="migrate"):
            orders.claim()
        outstanding = orders.outstanding()
        made, again = orders.migrate(), orders.migrate()
        (claim,) = orders.claim()

    assert (made, again) == (outstanding, [])
    assert claim.row.id == 1
    assert "tenure_fence" not in claim.row


def test_a_table_shows_its_statements_and_what_is_to_be_known_of_it(shop: Shop) -> None:
    with shop.table() as orders:
        texts, findings = orders.sql(), orders.check()

    assert {"claim", "settle", "schema"} <= texts.keys()
    assert not [each for each in findings if each.severity is tenure.Severity.ERROR]


def test_a_table_in_the_database_of_a_jobs_shares_what_that_has_open(shop: Shop) -> None:
    shop.given(1)

    with tenure.Jobs(shop.jobs_url) as jobs:
        with shop.table(jobs) as orders:
            (claim,) = orders.claim()
            claim.complete()
        later = shop.table(jobs.aio).stats()
        id = jobs.enqueue("still open")

    assert later.total("completed") == 1
    assert id


def test_a_jobs_and_a_table_commit_together(shop: Shop) -> None:
    shop.given(1)

    with tenure.Jobs(shop.jobs_url) as jobs, shop.table(jobs) as orders:
        (claim,) = orders.claim()
        with claim.transaction() as connection:
            jobs.enqueue("mail", {"order": claim.row.id}, connection=connection)
        (mail,) = jobs.find()

    assert mail.payload == {"order": 1}
    assert shop.statuses() == ["done"]


def test_a_url_may_be_told_by_a_function_when_it_is_first_used(lite_shop: Shop) -> None:
    asked: list[str] = []

    def url() -> str:
        asked.append(lite_shop.url)
        return lite_shop.url

    orders = lite_shop.table(url)
    orders.close()

    assert asked == [lite_shop.url]


def test_a_table_that_is_closed_says_so(lite_shop: Shop) -> None:
    orders = lite_shop.table()
    orders.close()

    with pytest.raises(tenure.StoreUnavailable, match="this Table is closed; create a new one"):
        orders.stats()


@pytest.mark.parametrize(
    ("store", "options", "why"),
    [
        (7, {}, "store must be a URL such as 'sqlite:///app.db', a function that returns one, or a Jobs, not 7"),
        ("sqlite:///x", {"order": "id"}, "Table has no option 'order'; did you mean 'order_by'"),
        ("sqlite:///x", {"columns": {"stat": "s"}}, "columns has no option 'stat'; did you mean 'state'"),
        ("sqlite:///x", {"lease": 0}, "lease must be 1 to"),
        ("sqlite:///x", {"timeout": -1}, "timeout must be"),
        ("sqlite:///x", {"backoff": 5}, "backoff must be a Backoff"),
        ("sqlite:///x", {"done_if": 7}, "done_if must be SQL or a function that takes a row"),
        ("sqlite:///x", {"row": dict}, "row must be a dataclass"),
    ],
)
def test_what_cannot_be_is_told_where_the_table_is_described(store: Any, options: Any, why: str) -> None:
    with pytest.raises(tenure.ConfigurationError, match=why):
        tenure.Table(store, "orders", **options)


@pytest.mark.parametrize("store", ["memory://", tenure.Jobs("memory://"), "redis://localhost"])
def test_a_store_that_has_no_tables_is_refused_when_it_is_used(store: Any) -> None:
    orders = tenure.Table(store, "orders")

    with pytest.raises(tenure.ConfigurationError, match="has no tables"):
        orders.stats()


def test_a_table_says_where_it_is_without_a_password() -> None:
    assert repr(tenure.Table("postgresql://me:secret@db/app", "shop.orders")) == (
        "<Table 'shop.orders' in postgresql://me:***@db/app>"
    )


def test_opening_a_table_makes_nothing_else(lite_shop: SQLiteShop) -> None:
    with lite_shop.table() as orders:
        orders.stats()

    tables = {name for (name,) in lite_shop.rows("select name from sqlite_master where type = 'table'")}
    assert tables == {"orders", "invoices"}
