"""A row that gets the key of a deleted row takes over nothing from the sidecar row of the deleted row."""

from contextlib import closing
from typing import Any

import pytest

import tenure
from tests.tables.client_shop import Shop


def beside(shop: Shop, name: str = "orders", **options: Any) -> tenure.Table[Any]:
    """Return a migrated table with a sidecar."""
    table: tenure.Table[Any] = tenure.Table(
        shop.url, shop.named(name), **{"where": "1 = 1", "sidecar": True, **options}
    )
    table.migrate()
    return table


def job_of(table: tenure.Table[Any], id: int) -> tenure.Job:
    job = table.get(id)
    assert job is not None
    return job


def replace_row(shop: Shop, id: int) -> None:
    """Delete an order, and insert another one with its key."""
    shop.rows(f"delete from {{orders}} where id = {id}")
    shop.rows(f"insert into {{orders}} (id, number, source) values ({id}, {id}, 'new')")


def test_the_holder_of_a_deleted_row_does_not_complete_the_new_row_with_its_key(shop: Shop) -> None:
    shop.given(1)

    with beside(shop) as orders:
        (claim,) = orders.claim()
        replace_row(shop, 1)

        with pytest.raises(tenure.ClaimLost):
            claim.complete()
        (again,) = orders.claim()
        again.complete()

        assert (again.row.source, job_of(orders, 1).state) == ("new", "completed")


@pytest.mark.parametrize("verb", ["complete", "release", "extend", "cancel"])
def test_the_holder_of_a_deleted_row_is_told_by_every_verb_that_the_claim_is_lost(shop: Shop, verb: str) -> None:
    shop.given(1)

    with beside(shop) as orders:
        (claim,) = orders.claim()
        replace_row(shop, 1)

        with pytest.raises(tenure.ClaimLost):
            getattr(claim, verb)()


def test_what_the_holder_of_a_deleted_row_wrote_in_its_transaction_is_rolled_back(shop: Shop) -> None:
    shop.given(1)

    with beside(shop) as orders:
        (claim,) = orders.claim()
        replace_row(shop, 1)

        with pytest.raises(tenure.ClaimLost), claim.transaction() as connection:
            shop.invoice(connection, 1)

    assert shop.invoices() == []


def test_a_completion_on_a_connection_of_the_holder_of_a_deleted_row_is_lost(shop: Shop) -> None:
    shop.given(1)

    with beside(shop) as orders, closing(shop.connected()) as connection:
        (claim,) = orders.claim()
        replace_row(shop, 1)

        with pytest.raises(tenure.ClaimLost):
            claim.complete(connection=connection)


def test_a_worker_runs_the_new_row_with_the_key_of_a_row_that_was_deleted_in_the_run(shop: Shop) -> None:
    shop.given(1)
    seen: list[str] = []

    with beside(shop) as orders:

        @orders.handler
        def work(row: Any) -> None:
            seen.append(row.source)
            if row.source == "scraper":
                replace_row(shop, 1)

        orders.work(drain=True)

        assert (seen, job_of(orders, 1).state) == (["scraper", "new"], "completed")


@pytest.mark.parametrize("ending", ["complete", "fail", "cancel"])
def test_a_new_row_with_the_key_of_a_finished_row_is_claimed(shop: Shop, ending: str) -> None:
    shop.given(1)

    with beside(shop) as orders:
        (claim,) = orders.claim()
        getattr(claim, ending)(*(["broken"] if ending == "fail" else []))
        replace_row(shop, 1)

        (again,) = orders.claim()

        assert (again.row.source, again.job.attempts, again.job.errors) == ("new", 1, [])


def test_a_row_that_was_cancelled_before_any_claim_is_claimed_when_it_is_inserted_again(shop: Shop) -> None:
    shop.given(1)

    with beside(shop) as orders:
        orders.cancel([1])
        before = orders.claim()
        replace_row(shop, 1)

        assert (len(before), len(orders.claim())) == (0, 1)


def test_a_row_keeps_its_state_under_a_new_key(shop: Shop) -> None:
    shop.given(1)

    with beside(shop) as orders:
        orders.claim()[0].complete("done")
        shop.rows("update {orders} set id = 7")

        assert list(orders.claim()) == []
        assert (orders.get(1), job_of(orders, 7).result) == (None, "done")


def test_the_holder_of_a_row_that_got_another_key_has_lost_it_and_the_row_stays_held_under_the_new_key(
    shop: Shop,
) -> None:
    shop.given(1)

    with beside(shop) as orders:
        (claim,) = orders.claim()
        shop.rows("update {orders} set id = 7")

        with pytest.raises(tenure.ClaimLost):
            claim.complete()
        assert (list(orders.claim()), job_of(orders, 7).state) == ([], "running")


def test_a_row_that_gets_the_key_of_a_held_row_is_not_completed_by_its_holder(shop: Shop) -> None:
    shop.given(2)

    with beside(shop) as orders:
        (claim,) = orders.claim()
        shop.rows("delete from {orders} where id = 1")
        shop.rows("update {orders} set id = 1 where id = 2")

        with pytest.raises(tenure.ClaimLost):
            claim.complete()
        assert [each.row.number for each in orders.claim(limit=5)] == [2]


def test_an_update_that_leaves_the_key_as_it_is_leaves_the_claim_as_it_is(shop: Shop) -> None:
    shop.given(1)

    with beside(shop) as orders:
        (claim,) = orders.claim()
        shop.rows("update {orders} set id = id, source = 'other'")
        claim.complete()

        assert job_of(orders, 1).state == "completed"


def test_a_new_row_with_the_key_of_several_columns_of_a_deleted_row_takes_over_nothing(shop: Shop) -> None:
    lines = shop.named("lines")
    shop.rows(f"create table {lines} (country varchar(9) not null, number integer, primary key (country, number))")
    shop.rows(f"insert into {lines} values ('at', 1), ('at', 2), ('de', 1)")

    with beside(shop, "lines", id=("number", "country")) as table:
        claims = {each.job.id: each for each in table.claim(limit=3)}
        shop.rows(f"delete from {lines} where country = 'at' and number = 1")
        shop.rows(f"insert into {lines} values ('at', 1)")

        with pytest.raises(tenure.ClaimLost):
            claims.pop('["1","at"]').complete()
        for each in claims.values():
            each.complete()
        assert [each.job.id for each in table.claim(limit=3)] == ['["1","at"]']


def test_migrate_makes_the_protection_once_and_prints_it(shop: Shop) -> None:
    table: tenure.Table[Any] = tenure.Table(shop.url, shop.named("orders"), where="1 = 1", sidecar=True)

    with table as orders:
        told = orders.outstanding()
        done = orders.migrate()

        assert told == done
        assert sum("foreign key" in each or "create trigger" in each for each in done) in (1, 2)
        assert (orders.outstanding(), orders.migrate()) == ([], [])
        assert [each.about for each in orders.check() if each.about in ("foreign key", "trigger")] == []
