"""Types of tables. Each `type: ignore` marks an error that the type checker must report."""

from dataclasses import dataclass
from typing import assert_type
from uuid import UUID

import tenure


@dataclass
class Order:
    id: int
    total: float


jobs = tenure.Jobs()
rows = tenure.Table("sqlite:///app.db", "orders", columns={"state": "status"}, states={"queued": "pending"}, lease=180)
orders = tenure.Table(jobs, "orders", row=Order, where="source = :source", params={"source": "scraper"})
awaited = tenure.AsyncTable(lambda: "sqlite:///app.db", "orders", row=Order)

assert_type(rows, tenure.Table[tenure.Row])
assert_type(orders, tenure.Table[Order])
assert_type(awaited, tenure.AsyncTable[Order])
assert_type(orders.aio, tenure.AsyncTable[Order])
assert_type(awaited.sync, tenure.Table[Order])

tenure.Table(7, "orders")  # type: ignore[call-overload]
tenure.Table("sqlite:///app.db", "orders", order="id")  # type: ignore[call-overload]
tenure.Table("sqlite:///app.db", "orders", columns={"stat": "status"})  # type: ignore[call-overload]
tenure.Table("sqlite:///app.db", "orders", states={"pending": "p"})  # type: ignore[call-overload]


@orders.handler
def invoice(row: Order) -> float:
    return row.total


@rows.handler(timeout=30, give_up_on=(ValueError,))
async def match(row: tenure.Row) -> None: ...


assert_type(invoice(Order(1, 2.5)), float)
rows.handler(timeot=30)  # type: ignore[call-overload]


def by_hand() -> None:
    with orders.claim(limit=5, wait=1) as claims:
        assert_type(claims, tenure.TableClaims[Order])
        for claim in claims:
            with claim:
                assert_type(claim, tenure.TableClaim[Order])
                assert_type(claim.row, Order)
                assert_type(claim.row.total, float)
                assert_type(claim.already_done(), bool)
    assert_type(rows.claim()[0].row, tenure.Row)
    orders.claim(queues=["mail"])  # type: ignore[call-arg]


def steering() -> None:
    orders.get(7)
    orders.get(UUID(int=7))
    orders.get(("a", 7))
    orders.get(7.5)  # type: ignore[arg-type]
    orders.retry([7, 8], reason="again")
    orders.find(attempts_over=5)
    orders.find(queue="mail")  # type: ignore[call-arg]
    tenure.work(jobs, orders, rows.aio, concurrency=8)
    tenure.work(7)  # type: ignore[arg-type]


async def later() -> None:
    async with await awaited.claim(limit=5) as claims:
        assert_type(claims, tenure.AsyncTableClaims[Order])
        for claim in claims:
            async with claim:
                assert_type(claim.row, Order)
                assert_type(await claim.already_done(), bool)
                await claim.complete()
    assert_type(await awaited.stats(), tenure.Stats)
    assert_type(await awaited.get(7), tenure.Job | None)
