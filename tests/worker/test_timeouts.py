"""Handlers that exceed their time limit, lose their claim or are cancelled, and workers that stop before them."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

import tenure
from tenure.core.job import Outcome
from tenure.testing import Harness
from tenure.worker import claimer, thread_executor, watchdog, work_source
from tenure.worker.prefetch import Prefetch
from tenure.worker.store_retry import Request, Response, RetryingStore
from tests.worker.looking import DEADLINE, job_of, outcomes, until


def spin() -> None:
    """Run Python code for a long time without a blocking call."""
    ends_at = time.monotonic() + DEADLINE
    while time.monotonic() < ends_at:
        pass


def test_an_async_task_is_cancelled_when_its_time_is_over(jobs: tenure.Jobs) -> None:
    @jobs.task(timeout=0.05, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(DEADLINE)

    id = slow.enqueue()
    jobs.work(drain=True)

    job = job_of(jobs, id)
    assert job.state == "failed"
    assert "exceeded its time limit of 0.05 seconds" in job.errors[0]
    assert "await asyncio.sleep(DEADLINE)" in job.errors[0]


def test_a_sync_task_is_interrupted_when_its_time_is_over_and_its_slot_goes_on(jobs: tenure.Jobs) -> None:
    @jobs.task(timeout=0.05, max_attempts=1)
    def slow() -> None:
        try:
            spin()
        except Exception:  # noqa: BLE001 - many handlers catch everything
            return

    @jobs.task
    def after() -> str:
        return "done"

    id, last = slow.enqueue(), after.using(priority=-1).enqueue()
    jobs.work(drain=True, concurrency=1)

    assert "exceeded its time limit" in job_of(jobs, id).errors[0]
    assert after.result(last) == "done"


def test_a_task_that_ends_in_time_is_not_interrupted_later(jobs: tenure.Jobs) -> None:
    @jobs.task(timeout=0.02)
    def quick() -> str:
        return "done"

    @jobs.task(timeout=DEADLINE)
    def slow() -> str:
        time.sleep(0.1)
        return "done"

    ids = [quick.enqueue(), slow.enqueue()]
    jobs.work(drain=True, concurrency=1)

    assert [job_of(jobs, id).result for id in ids] == ["done", "done"]


def test_the_time_limit_of_a_run_is_forgotten_when_it_has_ended(jobs: tenure.Jobs) -> None:
    @jobs.task(timeout=3600)
    def quick() -> None: ...

    with jobs.worker() as worker:
        quick.result(quick.enqueue(), timeout=DEADLINE)
        slots = worker._thread_executor
        assert slots is not None

    assert slots._timeouts._ends_at == {}


def test_the_time_limit_of_a_job_goes_before_that_of_its_task(jobs: tenure.Jobs) -> None:
    @jobs.task(timeout=DEADLINE, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(DEADLINE)

    id = slow.using(timeout=0.05).enqueue()
    jobs.work(drain=True)

    assert "its time limit of 0.05 seconds" in job_of(jobs, id).errors[0]


def test_the_time_limit_of_a_task_holds_for_jobs_enqueued_by_type(jobs: tenure.Jobs) -> None:
    @jobs.task(timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(DEADLINE)

    id = jobs.enqueue("slow", max_attempts=1)
    jobs.work(drain=True)

    assert "its time limit of 0.05 seconds" in job_of(jobs, id).errors[0]


def test_a_time_limit_may_be_something_to_give_up_on(jobs: tenure.Jobs) -> None:
    @jobs.task(timeout=0.05, give_up_on=TimeoutError)
    async def slow() -> None:
        await asyncio.sleep(DEADLINE)

    id = slow.enqueue()
    jobs.work(drain=True)

    assert (job_of(jobs, id).state, job_of(jobs, id).attempts) == ("failed", 1)


def test_a_handler_that_goes_on_after_its_time_limit_loses_its_lease_and_its_slot(
    jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow: a handler continues past its time limit until its lease expires."""
    monkeypatch.setattr(watchdog, "CHECK_INTERVAL", 0.02)
    may_end = threading.Event()
    runs = []

    @jobs.task(timeout=0.5)
    def stuck() -> str:
        runs.append(tenure.current())
        if len(runs) == 1:
            while not may_end.wait(0.01):  # ignores the interrupt
                try:
                    may_end.wait(DEADLINE)
                except tenure.TaskInterrupted:
                    continue
        return f"run {len(runs)}"

    id = stuck.enqueue()
    with jobs.worker(concurrency=1, lease=2):
        result = stuck.result(id, timeout=DEADLINE)
        may_end.set()

    job = job_of(jobs, id)
    assert (result, job.fence, job.crashes, outcomes(job)) == ("run 2", 2, 1, [Outcome.EXPIRED])
    assert runs[0].is_lost


def test_a_cancel_reaches_an_async_handler(jobs: tenure.Jobs) -> None:
    @jobs.task
    async def slow() -> None:
        await asyncio.sleep(DEADLINE)

    id = slow.enqueue()
    with jobs.worker(lease=6) as worker:
        until(lambda: job_of(jobs, id).state == "running")
        jobs.cancel(id)
        until(lambda: job_of(jobs, id).state == "cancelled")

    assert worker.summary.cancelled == 1


def test_a_sync_handler_is_told_that_a_cancel_was_asked_for(jobs: tenure.Jobs) -> None:
    @jobs.task
    def slow() -> None:
        ends_at = time.monotonic() + DEADLINE
        while time.monotonic() < ends_at:
            tenure.current().raise_if_stopping()
            time.sleep(0.005)

    id = slow.enqueue()
    with jobs.worker(lease=6):
        until(lambda: job_of(jobs, id).state == "running")
        jobs.cancel(id)
        until(lambda: job_of(jobs, id).state == "cancelled")


def test_a_handler_that_completes_although_a_cancel_was_asked_for_has_completed(jobs: tenure.Jobs) -> None:
    begun, asked = threading.Event(), threading.Event()

    @jobs.task
    def stubborn() -> str:
        begun.set()
        asked.wait(DEADLINE)
        return "done"

    id = stubborn.enqueue()
    with jobs.worker():
        assert begun.wait(DEADLINE)
        jobs.cancel(id)
        asked.set()

    assert (job_of(jobs, id).state, job_of(jobs, id).result) == ("completed", "done")


def test_a_lost_claim_cancels_an_async_handler_and_its_result_is_dropped(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled = threading.Event()

    @jobs.task
    async def slow() -> str:
        try:
            await asyncio.sleep(DEADLINE)
        except asyncio.CancelledError:
            cancelled.set()
        return "late"

    id = slow.enqueue()
    with jobs.worker(lease=3) as worker:
        until(lambda: job_of(jobs, id).state == "running")
        jobs.pause("default")
        jobs.reap(worker=worker.name)
        assert cancelled.wait(DEADLINE)
        until(lambda: worker.summary.lost == 1)

    job = job_of(jobs, id)
    assert (job.state, job.result, outcomes(job)) == ("queued", None, [Outcome.EXPIRED])
    assert f"outcome of job {id} discarded: its claim was lost" in caplog.text


def test_a_lost_claim_is_told_to_a_sync_handler_and_its_result_is_dropped(jobs: tenure.Jobs) -> None:
    @jobs.task
    def slow() -> str:
        until(lambda: tenure.current().is_lost and tenure.current().is_stopping)
        with pytest.raises(tenure.ClaimLost):
            tenure.current().raise_if_stopping()
        return "late"

    id = slow.enqueue()
    with jobs.worker(lease=3) as worker:
        until(lambda: job_of(jobs, id).state == "running")
        jobs.pause("default")
        jobs.reap(worker=worker.name)
        until(lambda: worker.summary.lost == 1)

    assert (job_of(jobs, id).state, job_of(jobs, id).result) == ("queued", None)


def test_a_handler_that_blocks_the_loop_for_longer_than_its_lease_loses_nothing(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    """Slow: a handler blocks the event loop for longer than a lease."""

    @jobs.task
    async def blocks() -> str:
        time.sleep(7)  # noqa: ASYNC251 - blocks the loop on purpose
        return "done"

    id = blocks.enqueue()
    with jobs.worker(lease=5):
        until(lambda: job_of(jobs, id).started_at)
        until(lambda: datetime.now(UTC) > job_of(jobs, id).started_at + timedelta(seconds=5))  # type: ignore[operator]
        # The test reaps: the worker sends no claim, and so reaps nothing, while its loop is blocked.
        reaped = jobs.reap()
        blocks.result(id, timeout=DEADLINE)

    job = job_of(jobs, id)
    assert reaped == []
    assert (job.fence, job.attempts, job.history) == (1, 1, ())
    assert "event loop blocked" in caplog.text
    assert "in blocks" in caplog.text


def test_a_loop_that_stands_still_gives_back_what_it_has_not_begun_and_goes_on_later(
    jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchdog, "CHECK_INTERVAL", 0.02)
    monkeypatch.setattr(watchdog, "LOOP_BLOCKED_AFTER", 0.1)
    may_go_on = threading.Event()

    @jobs.task
    async def blocks() -> None:
        may_go_on.wait(DEADLINE)

    @jobs.task
    async def waits() -> str:
        return "done"

    @jobs.task
    def in_thread() -> str:
        return "done"

    blocks.enqueue()
    ids = jobs.enqueue_many(waits.job() for _ in range(3))
    with jobs.worker(concurrency=10):
        until(lambda: "event loop blocked" in caplog.text)
        until(lambda: all(job_of(jobs, id).state == "queued" for id in ids))
        assert in_thread.result(in_thread.enqueue(), timeout=DEADLINE) == "done"
        (shown,) = jobs.workers()
        may_go_on.set()
        for id in ids:
            assert waits.result(id, timeout=DEADLINE) == "done"

    assert "event loop running again" in caplog.text
    assert all(job_of(jobs, id).attempts == 1 for id in ids)
    assert shown.name


def test_jobs_that_wait_too_long_behind_slow_ones_are_given_back(
    jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claimer, "MAX_BUFFER_TIME", 0.05)
    monkeypatch.setattr(Prefetch, "size", 20)
    may_end = threading.Event()

    @jobs.task
    def quick() -> None: ...

    @jobs.task
    def slow() -> None:
        may_end.wait(DEADLINE)

    jobs.enqueue_many(slow.job() for _ in range(2))
    late = jobs.enqueue_many(quick.job() for _ in range(20))
    with jobs.worker(concurrency=2) as worker:
        until(lambda: all(Outcome.RELEASED in outcomes(job_of(jobs, id)) for id in late))
        may_end.set()
        until(lambda: worker.summary.completed == 22)

    assert all(job_of(jobs, id).attempts == 1 for id in late)


def test_the_pace_is_told_only_of_trips_and_of_all_the_time_since_the_last_began(
    jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []
    told: list[tuple[float, float]] = []

    class Asked(RetryingStore):
        def send(self, request: Request) -> Response | None:
            asked.append(request)
            return super().send(request)

    class Told(Prefetch):
        def record(self, *, ended: int, elapsed: float, round_trip: float) -> None:
            told.append((elapsed, round_trip))
            super().record(ended=ended, elapsed=elapsed, round_trip=round_trip)

    monkeypatch.setattr(work_source, "RetryingStore", Asked)
    monkeypatch.setattr(claimer, "Prefetch", Told)

    @jobs.task
    def completes_by_itself() -> None:
        tenure.current().complete()

    jobs.enqueue_many(completes_by_itself.job() for _ in range(200))
    jobs.work(drain=True, concurrency=4)

    assert len(told) == len(asked)
    assert all(within >= trip for (_, trip), (within, _) in pairwise(told))


def test_stopping_waits_for_handlers_and_gives_back_what_was_not_begun(jobs: tenure.Jobs) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @jobs.task
    async def on_loop() -> str:
        begun.set()
        await asyncio.to_thread(may_end.wait, DEADLINE)
        return "done"

    @jobs.task
    def later() -> None: ...

    id, other = on_loop.enqueue(), later.enqueue()
    with jobs.worker(concurrency=1) as worker:
        assert begun.wait(DEADLINE)
        worker.stop()
        may_end.set()

    assert on_loop.result(id) == "done"
    assert (job_of(jobs, other).state, job_of(jobs, other).attempts) == ("queued", 0)


def test_a_handler_is_told_that_the_worker_stops_and_may_go_on_until_the_grace_is_over(jobs: tenure.Jobs) -> None:
    begun = threading.Event()

    @jobs.task
    def careful() -> str:
        begun.set()
        until(lambda: tenure.current().is_stopping)
        tenure.current().raise_if_stopping()
        return "done"

    id = careful.enqueue()
    with jobs.worker():
        assert begun.wait(DEADLINE)

    assert careful.result(id) == "done"


def test_what_does_not_end_within_the_grace_is_cancelled_or_interrupted_and_given_back(jobs: tenure.Jobs) -> None:
    begun = threading.Semaphore(0)

    @jobs.task
    async def on_loop() -> None:
        begun.release()
        await asyncio.sleep(DEADLINE)

    @jobs.task
    def in_thread() -> None:
        begun.release()
        spin()

    ids = [on_loop.enqueue(), in_thread.enqueue()]
    with jobs.worker(grace=0.05) as worker:
        assert begun.acquire(timeout=DEADLINE)
        assert begun.acquire(timeout=DEADLINE)

    assert worker.summary.released == 2
    for id in ids:
        assert (job_of(jobs, id).state, job_of(jobs, id).attempts) == ("queued", 0)
        assert outcomes(job_of(jobs, id)) == [Outcome.RELEASED]


def test_what_cannot_be_interrupted_is_left_behind_and_given_back(
    jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(claimer, "INTERRUPT_TIMEOUT", 0.05)
    begun, may_end = threading.Event(), threading.Event()

    @jobs.task
    def stuck() -> None:
        begun.set()
        while not may_end.is_set():
            try:
                may_end.wait(DEADLINE)
            except tenure.TaskInterrupted:
                continue

    id = stuck.enqueue()
    with jobs.worker(grace=0) as worker:
        assert begun.wait(DEADLINE)
    may_end.set()

    assert worker.summary.released == 1
    assert (job_of(jobs, id).state, job_of(jobs, id).attempts) == ("queued", 0)
    assert f"job {id} is still running after the grace period; released for other workers" in caplog.text


def test_stopping_now_does_not_wait_for_the_grace(jobs: tenure.Jobs) -> None:
    begun = threading.Event()

    @jobs.task
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(DEADLINE)

    slow.enqueue()
    with jobs.worker(grace=DEADLINE) as worker:
        assert begun.wait(DEADLINE)
        worker.stop(now=True)
        worker.join()

    assert worker.summary.released == 1


def test_a_cancelled_work_stops_as_by_a_signal_and_is_cancelled_when_it_has_ended(jobs: tenure.Jobs) -> None:
    @jobs.task
    async def quick() -> str:
        begun.set()
        await asyncio.sleep(0.05)
        return "done"

    async def main() -> None:
        worker = asyncio.create_task(jobs.aio.work())
        await begun.wait()
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker

    begun = asyncio.Event()
    id = quick.enqueue()
    asyncio.run(main())

    assert quick.result(id) == "done"


def test_idle_threads_end_after_a_while(jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_executor, "IDLE_THREAD_TTL", 0.01)

    @jobs.task
    def work() -> str:
        return threading.current_thread().name

    with jobs.worker():
        name = work.result(work.enqueue(), timeout=DEADLINE)
        until(lambda: name not in {thread.name for thread in threading.enumerate()})
        assert work.result(work.enqueue(), timeout=DEADLINE) == name


def test_a_worker_leaves_no_threads_behind(harness: Harness) -> None:
    before = set(threading.enumerate())
    with tenure.Jobs(harness.open()) as jobs:

        @jobs.task
        def in_thread() -> None: ...

        @jobs.task(timeout=DEADLINE)
        async def on_loop() -> None: ...

        jobs.enqueue_many([in_thread.job(), on_loop.job()])
        jobs.work(drain=True)

    until(lambda: set(threading.enumerate()) <= before)


def test_a_jobs_that_is_closed_under_its_worker_ends_it(jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    @jobs.task
    def work() -> None: ...

    with pytest.raises(tenure.StoreUnavailable, match="closed"), jobs.worker() as worker:
        until(jobs.workers)
        jobs.close()
        worker.join()


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_handler_that_ends_badly_when_the_grace_is_over_is_given_back(jobs: tenure.Jobs, kind: str) -> None:
    begun = threading.Event()

    @jobs.task("async", max_attempts=1)
    async def on_loop() -> None:
        begun.set()
        try:
            await asyncio.sleep(DEADLINE)
        finally:
            raise RuntimeError("while tidying up")

    @jobs.task("sync", max_attempts=1)
    def in_thread() -> None:
        begun.set()
        try:
            spin()
        except tenure.TaskInterrupted as exc:
            raise RuntimeError("while tidying up") from exc

    id = jobs.enqueue(kind, max_attempts=1)
    with jobs.worker(grace=0.05):
        assert begun.wait(DEADLINE)

    assert (job_of(jobs, id).state, job_of(jobs, id).attempts) == ("queued", 0)


def test_a_handler_that_fails_within_the_grace_has_failed(jobs: tenure.Jobs) -> None:
    begun = threading.Event()

    @jobs.task(max_attempts=1)
    async def fails() -> None:
        begun.set()
        await asyncio.to_thread(until, lambda: tenure.current().is_stopping)
        raise ValueError("no luck")

    id = fails.enqueue()
    with jobs.worker():
        assert begun.wait(DEADLINE)

    assert job_of(jobs, id).state == "failed"


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_keyboard_interrupt_that_a_task_raises_is_its_failure(jobs: tenure.Jobs, kind: str) -> None:
    @jobs.task("async")
    async def on_loop() -> None:
        raise KeyboardInterrupt

    @jobs.task("sync")
    def in_thread() -> None:
        raise KeyboardInterrupt

    @jobs.task
    async def after() -> str:
        return "done"

    id, last = jobs.enqueue(kind, max_attempts=2), after.using(priority=-1).enqueue()
    jobs.work(drain=True, concurrency=1)

    assert (job_of(jobs, id).state, job_of(jobs, id).attempts) == ("failed", 2)
    assert after.result(last) == "done"


def test_a_lifespan_has_the_time_that_it_needs_to_be_left(jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.worker.worker.THREAD_EXIT_TIMEOUT", 0.01)
    steps: list[str] = []

    @jobs.lifespan
    async def pool() -> AsyncIterator[None]:
        yield
        await asyncio.sleep(0.3)
        steps.append("left")

    @jobs.task
    def work() -> None: ...

    jobs.work(drain=True)

    assert steps == ["left"]


def test_draining_goes_on_when_the_loop_has_stood_still(jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "CHECK_INTERVAL", 0.02)
    monkeypatch.setattr(watchdog, "LOOP_BLOCKED_AFTER", 0.1)

    @jobs.task
    async def blocks() -> None:
        time.sleep(0.5)  # noqa: ASYNC251 - blocks the loop on purpose

    jobs.enqueue_many(blocks.job() for _ in range(3))

    assert jobs.work(drain=True, concurrency=3).completed == 3


def test_a_start_that_is_broken_off_leaves_no_worker_behind(jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    @jobs.task
    def work() -> None: ...

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    monkeypatch.setattr("tenure.worker.worker._wait_for", interrupt)
    with pytest.raises(KeyboardInterrupt), jobs.worker():
        pytest.fail("it did not begin")

    until(lambda: {thread.name for thread in set(threading.enumerate()) - before} <= {"tenure-keeper"})
    assert jobs.workers() == []


def test_a_block_that_is_cancelled_while_it_begins_leaves_its_lifespan_and_no_worker(jobs: tenure.Jobs) -> None:
    steps: list[str] = []
    entered = asyncio.Event()

    @jobs.lifespan
    async def pool() -> AsyncIterator[None]:
        try:
            entered.set()
            await asyncio.sleep(DEADLINE)
            yield
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise

    @jobs.task
    def work() -> None: ...

    async def begin() -> None:
        async with jobs.aio.worker():
            pytest.fail("it did not begin")

    async def main() -> None:
        beginning = asyncio.create_task(begin())
        await entered.wait()
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning

    asyncio.run(main())

    assert steps == ["cancelled"]
    assert jobs.workers() == []
