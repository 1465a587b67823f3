"""Coroutines that settle or extend locked jobs: they delay no other operation."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

import tenure
from tenure.client.aio.ending_executor import ENDING_THREADS, EndingExecutor
from tenure.client.settling import waiting
from tenure.core.operations import Query
from tests.jobs.gates import PATIENCE, Gate, steps, until
from tests.worker.test_neighbours import Locking


async def leave_block(claim: tenure.AsyncClaim) -> None:
    async with claim:
        pass


LONG = 30.0
"""Seconds after which an ending that waits for no lock counts as delayed."""

ENDINGS: list[Callable[[tenure.AsyncClaim], Awaitable[None]]] = [
    tenure.AsyncClaim.complete,
    tenure.AsyncClaim.extend,
    leave_block,
]


@pytest.fixture
def store() -> Locking:
    return Locking()


@pytest.fixture
def ajobs(store: Locking, monkeypatch: pytest.MonkeyPatch) -> Iterator[tenure.AsyncJobs]:
    monkeypatch.setattr("tenure.client.settling.BUSY_TIMEOUT", PATIENCE)
    monkeypatch.setattr("tenure.client.claim.BUSY_TIMEOUT", PATIENCE)
    with tenure.Jobs(store) as jobs:
        yield jobs.aio


@pytest.mark.parametrize("end", ENDINGS)
def test_claims_that_wait_for_locked_jobs_keep_no_operation_waiting(
    ajobs: tenure.AsyncJobs, store: Locking, end: Callable[[tenure.AsyncClaim], Awaitable[None]]
) -> None:
    async def main() -> bool:
        await ajobs.enqueue_many([tenure.NewJob("work")] * ENDING_THREADS)
        claims = await ajobs.claim(limit=ENDING_THREADS)
        store.locked = {claim.id for claim in claims}
        endings = [asyncio.ensure_future(end(claim)) for claim in claims]
        await until(lambda: store.busy_count + store.extend_count >= ENDING_THREADS)
        async with asyncio.timeout(PATIENCE / 2):
            await ajobs.enqueue("other")
        is_early = any(each.done() for each in endings)
        store.locked = set()
        await asyncio.gather(*endings)
        return is_early

    assert not asyncio.run(main())


@pytest.mark.parametrize("end", ENDINGS)
def test_claims_that_wait_for_locked_jobs_keep_no_other_claim_waiting(
    ajobs: tenure.AsyncJobs, store: Locking, end: Callable[[tenure.AsyncClaim], Awaitable[None]]
) -> None:
    async def main() -> bool:
        await ajobs.enqueue_many([tenure.NewJob("work")] * (2 * ENDING_THREADS + 1))
        *claims, free = await ajobs.claim(limit=2 * ENDING_THREADS + 1)
        store.locked = {claim.id for claim in claims}
        endings = [asyncio.ensure_future(end(claim)) for claim in claims]
        ended = asyncio.ensure_future(end(free))
        await asyncio.wait([ended], timeout=LONG)
        is_first = ended.done() and not any(each.done() for each in endings)
        store.locked = set()
        await asyncio.gather(*endings, ended)
        return is_first

    assert asyncio.run(main())


def test_endings_that_wait_for_no_lock_share_a_few_threads(ajobs: tenure.AsyncJobs, store: Locking) -> None:
    number = 2 * ENDING_THREADS

    async def main() -> int:
        await ajobs.enqueue_many([tenure.NewJob("work")] * number)
        claims = await ajobs.claim(limit=number)
        gate = Gate(store, "settle")
        endings = asyncio.gather(*[claim.complete() for claim in claims])
        await steps(3)  # all calls have begun
        threads = sum(each.name.startswith("tenure-ending") for each in threading.enumerate())
        gate.open()
        await endings
        return threads

    assert asyncio.run(main()) == ENDING_THREADS
    assert store.stats().total("completed") == 2 * ENDING_THREADS


def test_a_closed_source_has_waited_for_all_endings_of_locked_jobs(ajobs: tenure.AsyncJobs, store: Locking) -> None:
    number = 2 * ENDING_THREADS

    async def main() -> int:
        await ajobs.enqueue_many([tenure.NewJob("work")] * number)
        claims = await ajobs.claim(limit=number)
        store.locked = {claim.id for claim in claims}
        endings = [asyncio.ensure_future(claim.complete()) for claim in claims]
        await until(lambda: store.busy_count > 0)
        asyncio.get_running_loop().call_later(0.1, store.locked.clear)
        await ajobs.close()
        completed = store.stats().total("completed")
        await asyncio.gather(*endings)
        return completed

    assert asyncio.run(main()) == number


def test_a_shutdown_waits_for_endings_that_have_not_begun() -> None:
    executor, opened = EndingExecutor(), threading.Event()

    def wait_for_lock() -> None:
        opened.wait(PATIENCE)
        assert waiting.before is not None
        waiting.before()

    endings = [executor.submit(wait_for_lock) for _ in range(2 * ENDING_THREADS)]
    closing = threading.Thread(target=executor.shutdown)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    opened.set()
    closing.join(PATIENCE)

    assert [each.done() and each.exception() for each in endings] == [None] * 2 * ENDING_THREADS


def test_a_cancelled_ending_of_a_locked_job_is_recorded(ajobs: tenure.AsyncJobs, store: Locking) -> None:
    async def main() -> bool:
        await ajobs.enqueue("work", id="job")
        (claim,) = await ajobs.claim()
        store.locked = {"job"}
        ending = asyncio.ensure_future(claim.complete())
        await until(lambda: store.busy_count > 0)
        ending.cancel()
        asyncio.get_running_loop().call_later(0.1, store.locked.clear)
        await asyncio.wait([ending])
        return ending.cancelled()

    assert asyncio.run(main())
    assert store.stats().total("completed") == 1


def test_a_closed_source_has_waited_for_the_endings_of_its_claims(ajobs: tenure.AsyncJobs, store: Locking) -> None:
    async def main() -> list[str]:
        await ajobs.enqueue("work", id="job")
        (claim,) = await ajobs.claim()
        store.locked = {"job"}
        ending = asyncio.ensure_future(claim.complete())
        await until(lambda: store.busy_count > 0)
        asyncio.get_running_loop().call_later(0.1, store.locked.clear)
        await ajobs.close()
        states = [job.state.value for job in store.find(Query()).jobs]
        await ending
        return states

    assert asyncio.run(main()) == ["completed"]
