"""`jobs.testing()` replaces the store of a `Jobs` by an in-memory store, and restores it on exit."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import tenure


@pytest.fixture
def jobs(tmp_path: Path) -> tenure.Jobs:
    return tenure.Jobs(f"sqlite:///{tmp_path}/real.db")


def our_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("tenure-")]


def test_nothing_is_enqueued_in_the_real_store(jobs: tenure.Jobs) -> None:
    with jobs.testing() as queue:
        id = jobs.enqueue("send")

    assert [job.id for job in queue.jobs] == [id]
    assert jobs.get(id) is None


def test_a_store_that_was_never_opened_stays_so(jobs: tenure.Jobs, tmp_path: Path) -> None:
    with jobs.testing():
        jobs.enqueue("send")

    assert list(tmp_path.iterdir()) == []


def test_the_open_store_comes_back(jobs: tenure.Jobs) -> None:
    id = jobs.enqueue("send")

    with jobs.testing():
        assert jobs.get(id) is None

    assert [claim.id for claim in jobs.claim()] == [id]


def test_the_open_store_comes_back_after_an_exception(jobs: tenure.Jobs) -> None:
    id = jobs.enqueue("send")

    with pytest.raises(ValueError, match="wrong"), jobs.testing():
        raise ValueError("wrong")

    assert jobs.get(id) is not None


def test_blocks_stand_in_each_other_with_a_store_each(jobs: tenure.Jobs) -> None:
    with jobs.testing() as outer:
        first = jobs.enqueue("first")
        with jobs.testing() as inner:
            second = jobs.enqueue("second")
        third = jobs.enqueue("third")

    assert [job.id for job in outer.jobs] == [first, third]
    assert [job.id for job in inner.jobs] == [second]


def test_the_awaited_twin_is_in_the_block_too(jobs: tenure.Jobs) -> None:
    async def main() -> None:
        before = await jobs.aio.enqueue("send")
        with jobs.aio.testing() as queue:
            id = await jobs.aio.enqueue("send")
            claims = await jobs.aio.claim(wait=5)
            assert [claim.id for claim in claims] == [id] == [job.id for job in queue.jobs]
        assert [claim.id for claim in await jobs.aio.claim()] == [before]

    asyncio.run(main())


def test_a_coroutine_that_waits_for_jobs_is_turned_away_at_the_end(jobs: tenure.Jobs) -> None:
    async def main() -> None:
        with jobs.testing():
            waiting = asyncio.create_task(jobs.aio.claim(wait=60))
            await jobs.aio.stats()
        with pytest.raises(tenure.StoreUnavailable):
            await waiting

    asyncio.run(main())


def test_the_code_under_test_may_close_it(jobs: tenure.Jobs) -> None:
    async def main() -> None:
        with jobs.testing():
            await jobs.aio.enqueue("send")
            await jobs.aio.close()
            with pytest.raises(tenure.StoreUnavailable, match="closed"):
                await jobs.aio.enqueue("send")
        await jobs.aio.enqueue("send")

    asyncio.run(main())

    assert jobs.stats().total("due") == 1


def test_one_that_is_closed_can_be_tested_and_stays_closed(jobs: tenure.Jobs) -> None:
    jobs.close()

    with jobs.testing():
        jobs.enqueue("send")

    with pytest.raises(tenure.StoreUnavailable, match="closed"):
        jobs.enqueue("send")


def test_no_thread_is_left_behind(jobs: tenure.Jobs) -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        with jobs.testing():
            await jobs.aio.enqueue("send")
            async with await jobs.aio.claim():
                pass

    asyncio.run(main())

    assert set(threading.enumerate()) <= before


def test_the_clock_stands_still_until_it_is_moved(jobs: tenure.Jobs) -> None:
    started_at = datetime.now(UTC)
    with jobs.testing() as queue:
        began_at = queue.now
        jobs.enqueue("send", delay=60)
        assert jobs.claim() == []
        queue.advance(timedelta(minutes=1))
        assert queue.now == began_at + timedelta(minutes=1)
        assert len(jobs.claim()) == 1

    assert started_at <= began_at <= datetime.now(UTC)


def test_the_clock_can_be_set(jobs: tenure.Jobs) -> None:
    new_year = datetime(2030, 1, 1, tzinfo=UTC)
    with jobs.testing() as queue:
        queue.now = new_year
        jobs.enqueue("send")

    assert [job.created_at for job in queue.jobs] == [new_year]


def test_a_moment_without_a_time_zone_is_refused(jobs: tenure.Jobs) -> None:
    with jobs.testing() as queue, pytest.raises(tenure.ConfigurationError, match="must have a time zone"):
        queue.now = datetime(2030, 1, 1)  # noqa: DTZ001 - that is what is refused


def test_jobs_are_shown_in_the_order_in_which_they_were_enqueued(jobs: tenure.Jobs) -> None:
    with jobs.testing() as queue:
        ids = jobs.enqueue_many(tenure.NewJob("send", priority=n) for n in range(1_500))

    assert [job.id for job in queue.jobs] == ids


def test_nothing_is_drained_after_the_block(jobs: tenure.Jobs) -> None:
    with jobs.testing() as queue:
        jobs.enqueue("send")

    with pytest.raises(tenure.ConfigurationError, match=r"call drain inside the block"):
        queue.drain()


def test_what_would_be_part_of_a_transaction_is_done_at_once(jobs: tenure.Jobs) -> None:
    session = object()

    @jobs.task
    def send(to: str) -> None:
        tenure.current().complete(f"sent to {to}", connection=session)

    with jobs.testing() as queue:
        send.using(connection=session).enqueue("ada")
        queue.assert_enqueued(send, to="ada")
        (job,) = queue.drain()

    assert (job.state, job.result) == ("completed", "sent to ada")


def test_a_claim_has_no_transaction_and_says_where_it_has(jobs: tenure.Jobs) -> None:
    @jobs.task
    def send() -> None:
        with tenure.current().transaction():
            pass

    with jobs.testing() as queue:
        send.enqueue()
        with pytest.raises(tenure.ConfigurationError, match="test this on SQLite or PostgreSQL"):
            queue.drain()
