"""Coroutines that wait for jobs; event loops and processes that share a facade; closing a facade."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tenure
from tenure.backends.memory import Memory
from tenure.backends.protocol import Backend
from tenure.client.aio.threads import OPERATION_THREADS, WAITER_THREADS
from tenure.testing.conformance.racing import run_concurrently
from tests.jobs.gates import PATIENCE, Gate, our_threads, until
from tests.tiers import only_in_all

Waiting = asyncio.Task[tenure.AsyncClaims]


@pytest.fixture
def store() -> Memory:
    return Memory()


@pytest.fixture
def ajobs(store: Backend) -> Iterator[tenure.AsyncJobs]:
    with tenure.Jobs(store) as jobs:
        yield jobs.aio


def number_waiting(ajobs: tenure.AsyncJobs) -> int:
    threads = ajobs.threads
    with threads._lock:
        return sum(map(len, threads._waiting_claims.values()))


async def start_waiting(ajobs: tenure.AsyncJobs, queues: list[str]) -> list[Waiting]:
    """Start a claim for each queue; return when all claims are waiting."""
    tasks = []
    for number, queue in enumerate(queues):
        tasks.append(asyncio.create_task(ajobs.claim(queues=queue, wait=PATIENCE)))
        await until(lambda: number_waiting(ajobs) > number)  # noqa: B023
    return tasks


async def stop(tasks: list[Waiting]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_a_claim_waits_for_a_job_to_come(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> list[str]:
        (task,) = await start_waiting(ajobs, ["mail"])
        await ajobs.enqueue("late", queue="mail")
        return [claim.job.type for claim in await task]

    assert asyncio.run(main()) == ["late"]


def test_a_claim_waits_no_longer_than_asked_even_behind_one_that_waits_longer(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> tenure.AsyncClaims:
        tasks = await start_waiting(ajobs, ["mail"])
        async with asyncio.timeout(PATIENCE / 2):
            nothing = await ajobs.claim(queues="mail", wait=0.01)
        await stop(tasks)
        return nothing

    assert asyncio.run(main()) == []


def test_a_claim_whose_time_runs_out_behind_its_first_look_does_not_wait_on(
    ajobs: tenure.AsyncJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = ajobs.threads
    submit = threads._submit

    def submit_and_fall_behind(*args: Any) -> None:
        submit(*args)
        threading.Event().wait(0.05)

    async def main() -> tenure.AsyncClaims:
        tasks = await start_waiting(ajobs, ["mail"])
        monkeypatch.setattr(threads, "_submit", submit_and_fall_behind)
        async with asyncio.timeout(PATIENCE / 2):
            nothing = await ajobs.claim(queues="mail", wait=0.02)
        await stop(tasks)
        return nothing

    assert asyncio.run(main()) == []


def test_a_claim_whose_time_is_up_looks_once_more(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    waiting = Gate(store, "wait")

    async def main() -> list[str]:
        task = asyncio.create_task(ajobs.claim(wait=2))
        await until(lambda: waiting.is_reached)
        # The waiting claim gets no notification.
        await ajobs.enqueue("late")
        claims = await task
        waiting.open()
        return [claim.job.type for claim in claims]

    assert asyncio.run(main()) == ["late"]


def test_those_who_want_the_same_are_served_in_the_order_they_came(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> list[list[int]]:
        tasks = await start_waiting(ajobs, ["mail"] * 5)
        await ajobs.enqueue_many(tenure.NewJob("a", {"n": n}, queue="mail") for n in range(3))
        async with asyncio.timeout(PATIENCE / 2):
            served = await asyncio.gather(*tasks[:3])
        assert not any(task.done() for task in tasks[3:])
        await stop(tasks)
        return [[claim.job.payload["n"] for claim in claims] for claims in served]

    assert asyncio.run(main()) == [[0], [1], [2]]


@only_in_all
@pytest.mark.parametrize(
    "queues", [["mail"] * 200, [f"queue-{n}" for n in range(199)] + ["mail"]], ids=["same", "different"]
)
def test_two_hundred_waiting_claims_starve_nobody(ajobs: tenure.AsyncJobs, queues: list[str]) -> None:
    before = len(our_threads())

    async def main() -> tuple[int, int]:
        tasks = await start_waiting(ajobs, queues)
        async with asyncio.timeout(PATIENCE / 2):
            await ajobs.enqueue("work", queue="mail")
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            (claims,) = [task.result() for task in done]
            await claims[0].complete()
        threads = len(our_threads()) - before
        await stop(tasks)
        return (await ajobs.stats()).total("completed"), threads

    completed, threads = asyncio.run(main())

    assert completed == 1
    assert threads <= OPERATION_THREADS + WAITER_THREADS


def test_waits_that_do_not_end_hold_up_no_operation(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    gate = Gate(store, "wait")

    async def main() -> int:
        tasks = await start_waiting(ajobs, [f"queue-{n}" for n in range(OPERATION_THREADS + WAITER_THREADS)])
        async with asyncio.timeout(PATIENCE / 2):
            await ajobs.enqueue("work")
            (claim,) = await ajobs.claim()
            await claim.complete()
        gate.open()
        await stop(tasks)
        return (await ajobs.stats()).total("completed")

    assert asyncio.run(main()) == 1


def test_those_who_left_are_forgotten_behind_one_who_waits_on(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> None:
        tasks = await start_waiting(ajobs, ["mail"])
        for _ in range(20):
            await ajobs.claim(queues="mail", wait=0.001)
        await until(lambda: number_waiting(ajobs) == 1)
        await stop(tasks)

    asyncio.run(main())


@pytest.mark.parametrize("operation", ["wait", "claim"])
def test_those_who_wait_are_told_that_the_store_is_gone(
    ajobs: tenure.AsyncJobs, store: Memory, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_away(*_: object) -> None:
        raise tenure.StoreUnavailable("gone")

    async def main() -> list[BaseException | None]:
        tasks = await start_waiting(ajobs, ["mail"] * 3)
        monkeypatch.setattr(store, operation, go_away)
        await asyncio.wait(tasks)
        return [task.exception() for task in tasks]

    errors = asyncio.run(main())

    assert [repr(each) for each in errors] == ["StoreUnavailable('gone')"] * 3
    assert len({id(each) for each in errors}) == 3


@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
def test_a_close_ends_those_who_wait_and_every_thread(store: Memory, *, is_sync: bool) -> None:
    before = our_threads()

    async def main() -> list[BaseException | None]:
        ajobs = tenure.AsyncJobs(store)
        tasks = await start_waiting(ajobs, ["mail", "mail", "news"])
        if is_sync:
            ajobs.sync.close()
        else:
            await ajobs.close()
        assert our_threads() == before
        await asyncio.wait(tasks)
        return [task.exception() for task in tasks]

    errors = asyncio.run(main())

    assert [type(each) for each in errors] == [tenure.StoreUnavailable] * 3
    assert "this Jobs is closed" in str(errors[0])


def test_what_was_found_but_not_returned_when_it_was_closed_is_given_back(store: Memory) -> None:
    async def main() -> None:
        ajobs = tenure.AsyncJobs(store)
        await ajobs.enqueue("work")
        task = asyncio.create_task(ajobs.claim())
        await asyncio.sleep(0)
        (look,) = ajobs.threads._pending_claims
        while not look._response:
            pass
        with look._running:
            pass
        ajobs.sync.close()
        await task

    with pytest.raises(tenure.StoreUnavailable, match="this Jobs is closed"):
        asyncio.run(main())

    assert store.stats().total("due") == 1


def test_a_closed_twin_says_so(ajobs: tenure.AsyncJobs) -> None:
    before = our_threads()

    async def main() -> None:
        await ajobs.stats()
        await ajobs.close()
        await ajobs.close()
        with pytest.raises(tenure.StoreUnavailable, match="this Jobs is closed"):
            await ajobs.stats()
        with pytest.raises(tenure.StoreUnavailable, match="this Jobs is closed"):
            await ajobs.claim()

    asyncio.run(main())

    assert our_threads() == before


def test_a_block_that_is_left_after_the_close_lets_its_exception_go_on(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> None:
        await ajobs.enqueue("work")
        async with await ajobs.claim():
            await ajobs.close()
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(main())


def test_as_a_block_it_closes_itself(store: Memory) -> None:
    async def main() -> tenure.AsyncJobs:
        async with tenure.AsyncJobs(store) as ajobs:
            await ajobs.enqueue("a")
        return ajobs

    ajobs = asyncio.run(main())

    with pytest.raises(tenure.StoreUnavailable):
        ajobs.sync.stats()


async def drain(ajobs: tenure.AsyncJobs) -> list[str]:
    done = []
    while claims := await ajobs.claim():
        await claims[0].complete()
        done.append(claims[0].id)
    return done


def test_two_loops_in_two_threads_share_a_twin(ajobs: tenure.AsyncJobs) -> None:
    ids = ajobs.sync.enqueue_many(tenure.NewJob("a") for _ in range(100))
    first, second = run_concurrently([lambda: asyncio.run(drain(ajobs))] * 2)

    assert sorted(first + second) == sorted(ids)


def test_those_who_wait_on_two_loops_are_both_served(ajobs: tenure.AsyncJobs) -> None:
    async def take() -> int:
        return len(await ajobs.claim(wait=PATIENCE))

    async def feed() -> int:
        await until(lambda: number_waiting(ajobs) == 2)
        return len(await ajobs.enqueue_many([tenure.NewJob("a"), tenure.NewJob("a")]))

    assert run_concurrently(
        [lambda: asyncio.run(take()), lambda: asyncio.run(take()), lambda: asyncio.run(feed())]
    ) == [1, 1, 2]


def test_a_twin_outlives_its_loop(ajobs: tenure.AsyncJobs) -> None:
    id = asyncio.run(ajobs.enqueue("a"))
    claims = asyncio.run(ajobs.claim(wait=1))
    asyncio.run(claims[0].complete())

    job = asyncio.run(ajobs.get(id))

    assert job is not None
    assert job.state == "completed"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(ajobs: tenure.AsyncJobs) -> None:
    async def ask() -> int:
        # The store decides whether the child may use it; the child must not wait for threads that do not exist.
        try:
            await ajobs.stats()
            await ajobs.claim()
        except tenure.StoreUnavailable as exc:
            return 7 if "forked" in str(exc) else 1
        return 7

    asyncio.run(ajobs.stats())
    with ajobs.threads._lock:
        child = os.fork()
        if child == 0:
            # Kill a child that hangs: the child must not continue with the tests of the parent.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(PATIENCE))
            os._exit(asyncio.run(ask()))
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7


FORGETFUL = """
import asyncio, tenure

async def main():
    ajobs = tenure.AsyncJobs("memory://")
    await ajobs.enqueue("a")
    await ajobs.claim()
    asyncio.create_task(ajobs.claim(wait=3600))
    await asyncio.sleep(0.1)

asyncio.run(main())
print("ended")
"""


def test_a_program_that_forgets_to_close_can_end() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGETFUL], capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n", "")
