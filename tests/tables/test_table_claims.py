"""Rows claimed by hand: the claim, and the effect of each ending on the row and its output."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import tenure
from tests.tables.client_shop import Shop


@dataclass(frozen=True)
class Order:
    id: int
    source: str
    note: str = "none"


def test_rows_are_claimed_in_order_and_completed_by_their_blocks(shop: Shop) -> None:
    shop.given(3)

    with shop.table() as orders, orders.claim(limit=2) as claims:
        taken = []
        for claim in claims:
            with claim:
                taken.append((claim.row["id"], claim.row.source, float(claim.row.total)))

    assert taken == [(1, "scraper", 1.5), (2, "scraper", 2.5)]
    assert shop.statuses() == ["done", "done", "pending"]


def test_only_rows_that_where_chooses_are_claimed(shop: Shop) -> None:
    shop.given(1, source="by hand")
    (wanted,) = shop.given(1)

    with shop.table() as orders:
        (claim,) = orders.claim(limit=5)

    assert claim.row.id == wanted


def test_what_is_not_settled_is_given_back_and_what_fails_is_tried_again(shop: Shop) -> None:
    shop.given(2)

    with shop.table(backoff=tenure.Backoff(first=0)) as orders:
        with pytest.raises(ZeroDivisionError), orders.claim(limit=2) as claims:
            for claim in claims:
                with claim:
                    _ = 1 / 0
        first, second = orders.get(1), orders.get(2)

    assert first is not None
    assert second is not None
    assert (first.state, first.attempts, "ZeroDivisionError" in first.errors[0]) == ("queued", 1, True)
    assert (second.state, second.attempts, second.errors) == ("queued", 0, [])


def test_what_is_written_in_the_transaction_of_a_claim_is_there_exactly_if_the_row_is_completed(shop: Shop) -> None:
    shop.given(2)

    with shop.table() as orders:
        kept, undone = orders.claim(limit=2)
        with kept.transaction() as connection:
            shop.invoice(connection, kept.row.id)
        with pytest.raises(ZeroDivisionError), undone.transaction() as connection:
            shop.invoice(connection, undone.row.id)
            _ = 1 / 0

    assert shop.invoices() == [1]
    assert shop.statuses() == ["done", "pending"]


def test_a_row_that_other_code_completed_meanwhile_is_lost_to_its_holder(shop: Shop) -> None:
    shop.given(1)

    with shop.table() as orders:
        (claim,) = orders.claim()
        shop.rows("update {orders} set status = 'done'")
        connection = shop.connected()
        shop.invoice(connection, claim.row.id)
        with pytest.raises(tenure.ClaimLost):
            claim.complete(connection=connection)
        connection.rollback()
        connection.close()

    assert shop.invoices() == []


def test_a_row_can_be_completed_in_a_transaction_of_the_callers_own(shop: Shop) -> None:
    shop.given(2)

    with shop.table() as orders:
        kept, undone = orders.claim(limit=2)
        for claim, ends in ((kept, "commit"), (undone, "rollback")):
            connection = shop.connected()
            shop.invoice(connection, claim.row.id)
            claim.complete(connection=connection)
            getattr(connection, ends)()
            connection.close()

    assert shop.invoices() == [1]
    assert shop.statuses() == ["done", "processing"]


def test_a_claim_that_was_taken_away_writes_nothing(shop: Shop) -> None:
    shop.given(1)

    with shop.table() as orders:
        (zombie,) = orders.claim(worker="dead")
        orders.reap(worker="dead")
        (later,) = orders.claim()
        with pytest.raises(tenure.ClaimLost), zombie.transaction() as connection:
            shop.invoice(connection, zombie.row.id)
        with pytest.raises(tenure.ClaimLost):
            zombie.complete()
        later.complete()

    assert shop.invoices() == []
    assert shop.statuses() == ["done"]


def test_a_row_whose_holder_died_when_it_was_done_is_recovered_and_not_done_again(shop: Shop) -> None:
    shop.given(2)

    with shop.table() as orders:
        orders.claim(limit=2, worker="dead")
        shop.rows("insert into {invoices} (order_id) values (1)")
        reaped = {each.id: each.state for each in orders.reap(worker="dead")}
        row = orders.stats().rows[0]

    assert reaped == {"1": "completed", "2": "queued"}
    assert (row.completed, row.recovered, row.prevented, row.due) == (1, 1, 0, 1)


def test_a_taker_that_finds_the_work_done_completes_it_as_prevented(shop: Shop) -> None:
    shop.given(2)

    with shop.table() as orders:
        shop.rows("insert into {invoices} (order_id) values (1)")
        for claim in orders.claim(limit=2):
            with claim:
                if not claim.already_done():
                    shop.rows(f"insert into {{invoices}} (order_id) values ({claim.row.id})")
        row = orders.stats().rows[0]

    assert shop.invoices() == [1, 2]
    assert (row.completed, row.prevented, row.recovered) == (2, 1, 0)


@pytest.mark.parametrize("ends_by", ["complete", "transaction", "connection"])
def test_each_way_to_complete_tells_that_the_work_was_found_done(lite_shop: Shop, ends_by: str) -> None:
    lite_shop.given(1)

    with lite_shop.table(output=None, done_if=lambda row: row.id == 1) as orders:
        (claim,) = orders.claim()
        assert claim.already_done()
        if ends_by == "complete":
            claim.complete()
        elif ends_by == "transaction":
            with claim.transaction():
                pass
        else:
            connection = lite_shop.connected()
            claim.complete(connection=connection)
            connection.commit()
            connection.close()
        row = orders.stats().rows[0]

    assert (row.completed, row.prevented) == (1, 1)


async def _later(row: Any) -> bool:  # noqa: ARG001
    return True


@pytest.mark.parametrize(
    ("done_if", "why"),
    [
        (None, "table 'orders' has no check for done rows: set done_if="),
        (_later, "done_if is async: use `await claim"),
        (lambda row: row.get("nothing"), "done_if must return True or False, not NoneType"),
    ],
)
def test_a_question_that_cannot_be_answered_is_an_error(lite_shop: Shop, done_if: Any, why: str) -> None:
    lite_shop.given(1)

    with lite_shop.table(output=None, done_if=done_if) as orders:
        (claim,) = orders.claim()
        with pytest.raises(tenure.ConfigurationError, match=why):
            claim.already_done()


def test_a_row_can_be_of_the_users_own_class(shop: Shop) -> None:
    shop.given(1)

    with shop.table(row=Order) as orders:
        (claim,) = orders.claim()

    assert claim.row == Order(id=1, source="scraper")
    assert claim.row is claim.row


def test_a_class_that_does_not_fit_is_refused_and_what_was_taken_is_given_back(lite_shop: Shop) -> None:
    @dataclass
    class Parcel:
        id: int
        sauce: str

    lite_shop.given(1)

    with lite_shop.table(row=Parcel) as orders:
        with pytest.raises(tenure.ConfigurationError, match=r"field 'sauce' of Parcel .*; did you mean 'source'"):
            orders.claim()
        job = orders.get(1)

    assert job is not None
    assert (job.state, job.attempts) == ("queued", 0)


def test_what_a_class_raises_for_a_row_is_the_failure_of_that_row(lite_shop: Shop) -> None:
    @dataclass
    class Even:
        id: int

        def __post_init__(self) -> None:
            if self.id % 2:
                raise ValueError(f"{self.id} is odd")

    lite_shop.given(2)

    with lite_shop.table(row=Even, max_attempts=1) as orders:
        odd, even = orders.claim(limit=2)
        with pytest.raises(ValueError, match="1 is odd"), odd:
            _ = odd.row
        with even:
            assert even.row == Even(2)

    assert lite_shop.statuses() == ["failed", "done"]


def test_a_claim_that_was_made_elsewhere_can_be_ended_here(lite_shop: Shop) -> None:
    lite_shop.given(1)

    with lite_shop.table() as orders, lite_shop.table() as here:
        (claim,) = orders.claim()
        with here.attach(1, fence=claim.fence, token=claim.token) as same:
            assert same.row == claim.row
        with pytest.raises(tenure.ClaimLost):
            here.attach(1, fence=claim.fence, token=claim.token)

    assert lite_shop.statuses() == ["done"]


def test_a_claim_is_for_the_lease_of_its_table_unless_it_says_otherwise(lite_shop: Shop) -> None:
    lite_shop.given(2)

    with lite_shop.table(lease=timedelta(minutes=3)) as orders:
        (usual,) = orders.claim()
        (longer,) = orders.claim(lease=600)

    assert (usual.lease.length, longer.lease.length) == (180.0, 600.0)


def test_a_claim_says_what_it_is(lite_shop: Shop) -> None:
    lite_shop.given(1)

    with lite_shop.table() as orders:
        (claim,) = orders.claim()

    assert repr(claim) == "<TableClaim of row '1' of 'orders', fence 1: held>"
