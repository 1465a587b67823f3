"""Tables from async code: the same methods, awaited."""

import asyncio
from typing import Any

import pytest

import tenure
from tests.tables.client_shop import Shop


def test_rows_are_claimed_and_completed_with_what_was_made_of_them(shop: Shop) -> None:
    shop.given(2)

    async def main() -> None:
        async with shop.table().aio as orders, await orders.claim(limit=2) as claims:
            for claim in claims:
                async with claim.transaction() as connection:
                    await shop.invoice_awaited(connection, claim.row.id)

    asyncio.run(main())

    assert shop.invoices() == [1, 2]
    assert shop.statuses() == ["done", "done"]


def test_the_verbs_of_a_table_are_awaited(lite_shop: Shop) -> None:
    lite_shop.given(3)

    async def main() -> tuple[Any, ...]:
        async with lite_shop.table().aio as orders:
            (claim,) = await orders.claim(worker="w")
            same = await orders.attach(1, fence=claim.fence, token=claim.token)
            await same.fail("no", final=True)
            await orders.retry(each for each in [1])
            await orders.cancel([3])
            explained, job = await orders.explain(3), await orders.get(1)
            found = [each.id async for each in orders.find(state="queued")]
            stats = await orders.stats()
            assert [await orders.migrate(), await orders.outstanding(), await orders.reap()] == [[], [], []]
            assert (await orders.sql())["claim"]
            assert isinstance(await orders.check(), list)
            return explained, job, found, stats.total("cancelled"), orders.name, repr(claim)

    explained, job, found, cancelled, name, shown = asyncio.run(main())

    assert explained.verdict.startswith("not running: it was cancelled")
    assert (job.state, found, cancelled, name) == ("queued", ["2", "1"], 1, "orders")
    assert shown.startswith("<AsyncTableClaim of row '1'")


async def is_first(row: tenure.Row) -> bool:
    await asyncio.sleep(0)
    return bool(row.id == 1)


@pytest.mark.parametrize(
    "options", [{"done_if": is_first, "output": None}, {"done_if": lambda row: row.id == 1, "output": None}, {}]
)
def test_whether_the_work_is_done_is_asked_in_each_way(lite_shop: Shop, options: dict[str, Any]) -> None:
    lite_shop.given(2)
    lite_shop.rows("insert into {invoices} (order_id) values (1)")

    async def main() -> tuple[list[bool], tenure.Stats]:
        async with lite_shop.table(**options).aio as orders, await orders.claim(limit=2) as claims:
            done = []
            for claim in claims:
                async with claim:
                    done.append(await claim.already_done())
            return done, await orders.stats()

    done, stats = asyncio.run(main())

    assert done == [True, False]
    assert stats.total("prevented") == 1


def test_a_twin_leads_back_and_is_the_same_each_time(lite_shop: Shop) -> None:
    orders = lite_shop.table()
    alone = tenure.AsyncTable(lite_shop.url, "orders", order_by="number")

    assert orders.aio is orders.aio
    assert orders.aio.sync is orders
    assert alone.sync.aio is alone
    orders.close()


def test_a_claim_that_waits_is_turned_away_when_its_table_is_closed(lite_shop: Shop) -> None:
    async def main() -> None:
        orders = lite_shop.table().aio
        waiting = asyncio.create_task(orders.claim(wait=30))
        await asyncio.sleep(0)
        await orders.close()
        with pytest.raises(tenure.StoreUnavailable, match="this Table is closed"):
            await waiting

    asyncio.run(main())
