"""Coroutines that settle or extend locked jobs: they delay no other operation."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

import tenure
from tenure.client.aio.threads import ENDING_THREADS
from tenure.core.operations import Query
from tests.jobs.gates import PATIENCE, until
from tests.worker.test_neighbours import Locking


async def leave_block(claim: tenure.AsyncClaim) -> None:
    async with claim:
        pass


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
        waiting = [asyncio.ensure_future(end(claim)) for claim in claims]
        await until(lambda: store.busy_count + store.extend_count >= ENDING_THREADS)
        async with asyncio.timeout(PATIENCE / 2):
            await ajobs.enqueue("other")
        is_early = any(each.done() for each in waiting)
        store.locked = set()
        await asyncio.gather(*waiting)
        return is_early

    assert not asyncio.run(main())


def test_a_closed_source_has_waited_for_the_endings_of_its_claims(ajobs: tenure.AsyncJobs, store: Locking) -> None:
    async def main() -> list[str]:
        await ajobs.enqueue("work", id="job")
        (claim,) = await ajobs.claim()
        store.locked = {"job"}
        waiting = asyncio.ensure_future(claim.complete())
        await until(lambda: store.busy_count > 0)
        asyncio.get_running_loop().call_later(0.1, store.locked.clear)
        await ajobs.close()
        states = [job.state.value for job in store.find(Query()).jobs]
        await waiting
        return states

    assert asyncio.run(main()) == ["completed"]
