"""Types of tasks. Type-checked, never run."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import date, timedelta
from typing import assert_type

import tenure

jobs = tenure.Jobs("memory://")


@jobs.task
def add(a: int, b: int = 2) -> int:
    return a + b


@jobs.task(queue="mail", max_attempts=5, timeout=timedelta(seconds=30), give_up_on=(ValueError, KeyError))
def send(message: int, to: str, *, copy: bool = False) -> str:
    return to


@jobs.task("days.next", backoff=tenure.Backoff(first=1), give_up_on=OSError)
async def tomorrow(day: date) -> date:
    return day + timedelta(days=1)


@jobs.cron("0 3 * * *", timezone="Europe/Berlin", missed="all")
def nightly() -> None: ...


@jobs.cron("@hourly", name="hourly", arguments={"day": "2026-01-01"})
@jobs.task
async def hourly(day: date) -> date:
    return day


@jobs.around
def block() -> Iterator[None]:
    yield


@jobs.lifespan
async def life() -> AsyncIterator[None]:
    yield


def surface() -> None:
    assert_type(add(1), int)
    assert_type(add.enqueue(1, b=2), str)
    assert_type(add.enqueue(1), str)
    assert_type(add.job(1), tenure.NewJob)
    assert_type(add.result("id", timeout=10), int)
    assert_type(send.using(priority=3, delay=60, key="k", id=None).enqueue(7, "ada", copy=True), str)
    assert_type(tomorrow(date(2026, 1, 1)), Coroutine[None, None, date]).close()
    assert_type(tomorrow.enqueue(date(2026, 1, 1)), str)
    assert_type(tomorrow.result("id"), date)
    assert_type(nightly.enqueue(), str)
    assert_type(hourly.enqueue(date(2026, 1, 1)), str)
    assert_type(jobs.enqueue_many(send.job(n, "ada") for n in range(3)), list[str])
    assert_type(jobs.wait_for("id", 10), tenure.Job)
    assert_type(jobs.work(concurrency=8, drain=True).completed, int)
    assert_type(tenure.current(), tenure.Run)
    assert_type(tenure.current().attempt, int)
    assert_type(tenure.current().idempotency_key, str)
    with jobs.worker(queues=["mail"], lease=timedelta(minutes=1)) as worker:
        assert_type(worker.name, str)


async def awaited() -> None:
    assert_type(await send.aio.enqueue(7, to="ada"), str)
    assert_type(await send.aio.using(queue="slow").enqueue(7, to="ada"), str)
    assert_type(await send.aio.result("id", timeout=1), str)
    assert_type(await tomorrow.aio.result("id"), date)
    assert_type((await jobs.aio.work(grace=3)).lost, int)
    async with jobs.aio.worker(types="send", name="w1") as worker:
        assert_type(worker.summary.completed, int)


ajobs = tenure.AsyncJobs("memory://")


@ajobs.task(queue="mail")
async def notify(to: str) -> int:
    return len(to)


async def from_the_twin() -> None:
    assert_type(await notify.aio.enqueue("ada"), str)
    assert_type(await notify.aio.result("id"), int)
    await notify.aio.enqueue(7)  # type: ignore[arg-type]


def as_a_callable(function: Callable[[int, int], int]) -> None: ...


def mistakes() -> None:
    add("one")  # type: ignore[arg-type]
    add.enqueue("one")  # type: ignore[arg-type]
    add.enqueue()  # type: ignore[call-arg]
    add.enqueue(1, 2, 3)  # type: ignore[call-arg]
    send.enqueue(7)  # type: ignore[call-arg]
    send.enqueue(7, "ada", subject="x")  # type: ignore[call-arg]
    send.using(priority=1).enqueue("7", "ada")  # type: ignore[arg-type]
    send.using(priorty=1)  # type: ignore[call-arg]
    send.job(to="ada")  # type: ignore[call-arg]
    tomorrow.enqueue("2026-01-01")  # type: ignore[arg-type]
    hourly.enqueue(7)  # type: ignore[arg-type]
    jobs.task(queue=7)  # type: ignore[call-overload]
    jobs.task(give_up_on=KeyboardInterrupt)  # type: ignore[arg-type]
    jobs.cron("* * * * *", missed="never")  # type: ignore[arg-type]
    jobs.work(concurency=8)  # type: ignore[call-arg]
    as_a_callable(send)  # type: ignore[arg-type]


async def awaited_mistakes() -> None:
    await send.aio.enqueue("7", "ada")  # type: ignore[arg-type]
    await send.aio.using(priority=1).enqueue()  # type: ignore[call-arg]
    await jobs.aio.work(drain="yes")  # type: ignore[arg-type]
