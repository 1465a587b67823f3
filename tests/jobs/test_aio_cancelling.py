"""A cancelled call leaves no partial effect and no held claim."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

import tenure
from tenure.backends.memory import Memory
from tenure.backends.protocol import Backend
from tests.jobs.gates import Gate, steps, until

ROUNDS = range(12)
"""More iterations of the event loop than a claim takes, so that a cancel is tested at each iteration."""


@pytest.fixture
def store() -> Memory:
    return Memory()


@pytest.fixture
def ajobs(store: Backend) -> Iterator[tenure.AsyncJobs]:
    with tenure.Jobs(store) as jobs:
        yield jobs.aio


async def cancelled(task: asyncio.Task[tenure.AsyncClaims]) -> int:
    """Cancel the task; return how many claims it had returned before."""
    task.cancel()
    await asyncio.wait([task])
    return 0 if task.cancelled() else len(task.result())


@pytest.mark.parametrize("wait", [0, 30])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_cancelled_claim_holds_nothing(ajobs: tenure.AsyncJobs, store: Memory, rounds: int, wait: float) -> None:
    ajobs.sync.enqueue("work")

    async def main() -> int:
        task = asyncio.create_task(ajobs.claim(wait=wait))
        await steps(rounds)
        returned = await cancelled(task)
        await ajobs.close()
        return returned

    returned = asyncio.run(main())

    assert store.stats().total("running") == returned


@pytest.mark.parametrize("is_behind", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_claim_that_is_cancelled_while_the_store_is_slow_holds_nothing(
    ajobs: tenure.AsyncJobs, store: Memory, rounds: int, *, is_behind: bool
) -> None:
    ajobs.sync.enqueue("work")
    gate = Gate(store, "claim", is_behind=is_behind)

    async def main() -> None:
        task = asyncio.create_task(ajobs.claim())
        await until(lambda: gate.is_reached)
        await steps(rounds)
        # Must not wait for the store, which is blocked.
        await cancelled(task)
        gate.open()
        await ajobs.close()

    asyncio.run(main())

    assert store.stats().total("running") == 0


def test_a_claim_that_is_cancelled_between_its_answer_and_its_return_holds_nothing(store: Memory) -> None:
    outcomes = []

    async def main(rounds: int) -> None:
        async with tenure.AsyncJobs(store) as ajobs:
            task = asyncio.create_task(ajobs.claim())
            await steps(1)
            (look,) = ajobs.threads._pending_claims
            while not look._response:
                pass
            # The response has arrived, but the event loop has not processed it.
            await steps(rounds)
            outcomes.append(await cancelled(task))

    for rounds in ROUNDS:
        store.enqueue([tenure.NewJob("work").record(f"job-{rounds}")])
        asyncio.run(main(rounds))

    assert store.stats().total("running") == sum(outcomes)
    assert outcomes[0] == 0
    assert outcomes[-1] == 1


def test_a_cancelled_claim_is_given_back_without_a_close(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    ajobs.sync.enqueue("work")
    gate = Gate(store, "claim", is_behind=True)

    async def main() -> None:
        task = asyncio.create_task(ajobs.claim())
        await until(lambda: gate.is_reached)
        await cancelled(task)
        gate.open()
        await until(lambda: store.stats().total("due") == 1)

    asyncio.run(main())


def test_what_is_given_back_costs_no_attempt(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    id = ajobs.sync.enqueue("work", max_attempts=1)
    gate = Gate(store, "claim", is_behind=True)

    async def main() -> None:
        task = asyncio.create_task(ajobs.claim())
        await until(lambda: gate.is_reached)
        await cancelled(task)
        gate.open()
        await until(lambda: store.stats().total("due") == 1)
        job = await ajobs.get(id)
        assert job is not None
        assert (job.state, job.attempts) == ("queued", 0)

    asyncio.run(main())


def test_a_claim_that_is_cancelled_while_it_waits_takes_nothing(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    gate = Gate(store, "wait", is_behind=True)
    gate.open()

    async def main() -> None:
        task = asyncio.create_task(ajobs.claim(wait=30))
        await until(lambda: bool(ajobs.threads._waiting_claims))
        await cancelled(task)
        await ajobs.enqueue("work")
        await until(lambda: not ajobs.threads._waiting_claims)

    asyncio.run(main())

    assert store.stats().total("due") == 1


def test_a_claim_that_is_cancelled_while_it_is_served_holds_nothing(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    gate = Gate(store, "claim", is_behind=True, passes=1)

    async def main() -> None:
        task = asyncio.create_task(ajobs.claim(wait=30))
        await until(lambda: bool(ajobs.threads._waiting_claims))
        await ajobs.enqueue("work")
        await until(lambda: gate.is_reached)
        await cancelled(task)
        gate.open()
        await ajobs.close()

    asyncio.run(main())

    assert store.stats().total("due") == 1


def test_a_close_waits_until_a_cancelled_claim_is_given_back(store: Memory) -> None:
    claiming, settling = Gate(store, "claim", is_behind=True), Gate(store, "settle")

    async def main() -> bool:
        ajobs = tenure.AsyncJobs(store)
        await ajobs.enqueue("work")
        task = asyncio.create_task(ajobs.claim())
        await until(lambda: claiming.is_reached)
        await cancelled(task)
        claiming.open()
        await until(lambda: settling.is_reached)
        closing = asyncio.create_task(ajobs.close())
        await steps(100)
        is_early = closing.done()
        settling.open()
        await closing
        return is_early

    assert not asyncio.run(main())
    assert store.stats().total("due") == 1


def test_a_claim_that_was_not_begun_when_it_was_cancelled_never_asks(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    gate = Gate(store, "stats")
    asked = Gate(store, "claim")
    asked.open()

    async def main() -> None:
        busy = [asyncio.create_task(ajobs.stats()) for _ in range(20)]
        await until(lambda: gate.is_reached)
        task = asyncio.create_task(ajobs.claim())
        await steps(3)
        await cancelled(task)
        gate.open()
        await asyncio.gather(*busy)
        await ajobs.close()

    asyncio.run(main())
    assert not asked.is_reached


def test_an_answer_for_a_loop_that_is_gone_is_given_back(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    ajobs.sync.enqueue("work")
    gate = Gate(store, "claim", is_behind=True)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    task = loop.create_task(ajobs.claim())
    loop.run_until_complete(until(lambda: gate.is_reached))
    loop.close()
    gate.open()

    asyncio.run(until(lambda: store.stats().total("due") == 1))
    assert not task.done()


def test_claims_that_cannot_be_given_back_are_told_and_not_raised(
    ajobs: tenure.AsyncJobs, store: Memory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = ajobs.sync.enqueue("work")
    gate = Gate(store, "claim", is_behind=True)

    def go_away(_: object) -> None:
        raise tenure.StoreUnavailable("gone")

    async def main() -> None:
        task = asyncio.create_task(ajobs.claim())
        await until(lambda: gate.is_reached)
        await cancelled(task)
        monkeypatch.setattr(store, "settle", go_away)
        gate.open()
        await until(lambda: bool(caplog.records))
        await ajobs.close()

    with caplog.at_level(logging.WARNING, "tenure"):
        asyncio.run(main())

    assert [record.getMessage() for record in caplog.records] == [
        "claims of a cancelled call not released, their leases will expire: gone"
    ]
    assert vars(caplog.records[0])["jobs"] == [id]


def test_a_timeout_around_a_claim_is_a_timeout(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ajobs.claim(wait=30)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ajobs.claim(wait=30), 0.01)

    asyncio.run(main())


@pytest.mark.parametrize("cancels", [1, 3])
def test_a_cancelled_ending_is_finished_first(ajobs: tenure.AsyncJobs, store: Memory, cancels: int) -> None:
    id = ajobs.sync.enqueue("work")
    gate = Gate(store, "settle")

    async def main() -> tuple[bool, bool]:
        (claim,) = await ajobs.claim()
        task = asyncio.create_task(claim.complete(7))
        await until(lambda: gate.is_reached)
        for _ in range(cancels):
            task.cancel()
            await steps(3)
        is_early = task.done()
        gate.open()
        await asyncio.wait([task])
        # Immediately, without waiting.
        assert store.stats().total("completed") == 1
        return is_early, task.cancelled()

    assert asyncio.run(main()) == (False, True)
    job = ajobs.sync.get(id)
    assert job is not None
    assert job.result == 7


@pytest.mark.parametrize("cancels", [1, 3])
def test_a_block_that_is_cancelled_on_leaving_is_left_first(
    ajobs: tenure.AsyncJobs, store: Memory, cancels: int
) -> None:
    ajobs.sync.enqueue("work")
    gate = Gate(store, "settle")

    async def work() -> None:
        async with await ajobs.claim() as claims:
            for claim in claims:
                async with claim:
                    claim.result = 7

    async def main() -> tuple[bool, bool]:
        task = asyncio.create_task(work())
        await until(lambda: gate.is_reached)
        for _ in range(cancels):
            task.cancel()
            await steps(3)
        is_early = task.done()
        gate.open()
        await asyncio.wait([task])
        return is_early, task.cancelled()

    assert asyncio.run(main()) == (False, True)
    assert store.stats().total("completed") == 1


def test_a_cancel_in_the_block_releases_the_job_before_it_goes_on(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    ajobs.sync.enqueue("work")
    entered = asyncio.Event()

    async def work() -> None:
        async with await ajobs.claim() as (claim,), claim:
            entered.set()
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert store.stats().total("due") == 1

    asyncio.run(main())


def test_a_cancelled_ending_that_is_lost_carries_that(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    ajobs.sync.enqueue("work")
    gate = Gate(store, "settle")

    async def main() -> BaseException | None:
        (claim,) = await ajobs.claim(worker="w1")
        task = asyncio.create_task(claim.complete())
        await until(lambda: gate.is_reached)
        ajobs.sync.reap(worker="w1")
        task.cancel()
        await steps(3)
        gate.open()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value.__cause__

    assert isinstance(asyncio.run(main()), tenure.ClaimLost)


def test_a_cancelled_close_is_finished_first(store: Memory) -> None:
    gate = Gate(store, "close")

    async def main() -> tuple[bool, bool]:
        ajobs = tenure.AsyncJobs(store)
        await ajobs.stats()
        task = asyncio.create_task(ajobs.close())
        await until(lambda: gate.is_reached)
        task.cancel()
        await steps(3)
        is_early = task.done()
        gate.open()
        await asyncio.wait([task])
        return is_early, task.cancelled()

    assert asyncio.run(main()) == (False, True)
