"""The async client on a SQLite file."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from contextvars import Context
from pathlib import Path

import pytest

import tenure


def receipts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [job for (job,) in db.execute("select job from receipts order by job")]


def prepared(path: Path) -> None:
    with tenure.Jobs(f"sqlite:///{path}") as jobs:
        jobs.enqueue("work", id="job")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table receipts (job text primary key)")


def test_five_workers_on_one_loop_drain_ten_jobs_each_once(path: Path) -> None:
    done: list[str] = []

    async def work(jobs: tenure.AsyncJobs, name: str) -> None:
        while claims := await jobs.claim(worker=name):
            async with claims:
                for claim in claims:
                    async with claim:
                        await asyncio.sleep(0)
                        done.append(claim.id)

    async def main() -> tenure.Stats:
        async with tenure.AsyncJobs(f"sqlite:///{path}") as jobs:
            ids = await jobs.enqueue_many(tenure.NewJob("work") for _ in range(10))
            await asyncio.gather(*(work(jobs, f"w{n}") for n in range(5)))
            assert Counter(done) == Counter(ids)
            return await jobs.stats()

    assert asyncio.run(main()).total("completed") == 10


def test_an_awaited_transaction_holds_the_effect_the_completion_and_new_jobs(path: Path) -> None:
    prepared(path)

    async def main() -> None:
        async with tenure.AsyncJobs(f"sqlite:///{path}") as jobs:
            (claim,) = await jobs.claim()
            async with claim.transaction() as connection:
                connection.execute("insert into receipts values (?)", (claim.id,))
                await jobs.enqueue("next", id="next", connection=connection)
                claim.result = {"done": True}
            found = {job.id: (job.state, job.result) async for job in jobs.find()}
            assert found == {"job": ("completed", {"done": True}), "next": ("queued", None)}

    asyncio.run(main())
    assert receipts(path) == ["job"]


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError()])
def test_what_leaves_an_awaited_transaction_undoes_it(path: Path, error: BaseException) -> None:
    prepared(path)

    async def main() -> str | None:
        async with tenure.AsyncJobs(f"sqlite:///{path}") as jobs:
            (claim,) = await jobs.claim()
            with pytest.raises(type(error)):
                async with claim, claim.transaction() as connection:
                    connection.execute("insert into receipts values (?)", (claim.id,))
                    raise error
            job = await jobs.get("job")
            return None if job is None else job.state

    assert asyncio.run(main()) == "queued"
    assert receipts(path) == []


def give_up(_: sqlite3.Connection) -> None:
    raise tenure.Fail("not today")


def test_an_answer_ends_in_an_awaited_transaction(path: Path) -> None:
    prepared(path)

    async def main() -> str | None:
        async with tenure.AsyncJobs(f"sqlite:///{path}") as jobs:
            (claim,) = await jobs.claim()
            async with claim.transaction() as connection:
                give_up(connection)
            job = await jobs.get("job")
            return None if job is None else job.state

    assert asyncio.run(main()) == "failed"


def test_a_task_that_was_begun_in_a_transaction_is_not_held_up_after_it(path: Path) -> None:
    prepared(path)

    async def main() -> None:
        async with tenure.AsyncJobs(f"sqlite:///{path}") as jobs:
            (claim,) = await jobs.claim()
            is_over = asyncio.Event()

            async def later() -> None:
                await is_over.wait()
                await jobs.enqueue("next", id="next")

            async with claim.transaction():
                task = asyncio.create_task(later())
                await asyncio.sleep(0)
            is_over.set()
            await task
            assert await jobs.get("next") is not None

    asyncio.run(main())


def test_a_transaction_may_be_entered_and_left_in_different_threads(path: Path) -> None:
    prepared(path)

    async def main() -> None:
        with tenure.Jobs(f"sqlite:///{path}") as jobs:
            (claim,) = jobs.claim()
            block = claim.transaction()
            connection = await asyncio.to_thread(block.__enter__)
            connection.execute("insert into receipts values ('job')")
            await asyncio.to_thread(block.__exit__, None, None, None)
            jobs.enqueue("next")
            assert claim.is_settled

    asyncio.run(main())
    assert receipts(path) == ["job"]


def test_a_stale_holder_has_no_awaited_transaction(path: Path) -> None:
    prepared(path)

    async def main() -> None:
        async with tenure.AsyncJobs(f"sqlite:///{path}") as jobs:
            (claim,) = await jobs.claim()
            await jobs.reap(worker=claim.job.worker)
            with pytest.raises(tenure.ClaimLost):
                async with claim.transaction() as connection:
                    connection.execute("insert into receipts values (?)", (claim.id,))

    asyncio.run(main())
    assert receipts(path) == []


def test_what_would_wait_for_the_awaited_transaction_that_it_is_in_is_refused_at_once(path: Path) -> None:
    prepared(path)

    async def main() -> None:
        async with tenure.AsyncJobs(f"sqlite:///{path}") as jobs:
            (claim,) = await jobs.claim()
            async with claim.transaction():
                with pytest.raises(tenure.ConfigurationError, match="would wait for"):
                    await jobs.enqueue("next")
            await jobs.enqueue("next")

    asyncio.run(main())


def test_a_transaction_can_end_while_everyone_else_waits_for_it(path: Path) -> None:
    prepared(path)

    async def main() -> int:
        async with tenure.AsyncJobs(f"sqlite:///{path}?timeout=60") as jobs:
            (claim,) = await jobs.claim()
            async with claim.transaction():
                # Separate tasks, in a context from before the block.
                context = Context()
                waiting = [asyncio.create_task(jobs.enqueue("next"), context=context) for _ in range(20)]
                await asyncio.sleep(0.2)
            await asyncio.wait_for(asyncio.gather(*waiting), 120)
            return (await jobs.stats()).total("due")

    assert asyncio.run(main()) == 20


def test_a_transaction_that_is_cancelled_while_it_begins_is_left_again(path: Path) -> None:
    prepared(path)

    async def main() -> None:
        async with tenure.AsyncJobs(f"sqlite:///{path}?timeout=60") as jobs:
            (claim,) = await jobs.claim()

            async def enter() -> None:
                async with claim.transaction():
                    pytest.fail("it was cancelled")

            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("begin immediate")
                entering = asyncio.create_task(enter())
                await asyncio.sleep(0.05)
                entering.cancel()
                await asyncio.sleep(0)
                other.execute("rollback")
            with pytest.raises(asyncio.CancelledError):
                await entering
            assert len(await jobs.claim()) == 1

    asyncio.run(main())


def test_the_callers_own_connection_is_used_in_its_own_thread(path: Path) -> None:
    prepared(path)

    async def main() -> None:
        async with tenure.AsyncJobs(f"sqlite:///{path}") as jobs:
            (claim,) = await jobs.claim()
            with closing(sqlite3.connect(path)) as own, own:
                own.execute("insert into receipts values (?)", (claim.id,))
                await jobs.enqueue_many([tenure.NewJob("next", id="next")], connection=own)
                await claim.complete(connection=own)
            assert {job.id: job.state async for job in jobs.find()} == {"job": "completed", "next": "queued"}

    asyncio.run(main())
    assert receipts(path) == ["job"]
