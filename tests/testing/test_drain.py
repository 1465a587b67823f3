"""`queue.drain()` does what a worker does, in the current thread."""

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import timedelta

import pytest

import tenure
from tenure.testing import TestQueue

colour: ContextVar[str] = ContextVar("colour", default="none")


@pytest.fixture
def jobs() -> tenure.Jobs:
    return tenure.Jobs("memory://")


@pytest.fixture
def queue(jobs: tenure.Jobs) -> Iterator[TestQueue]:
    with jobs.testing() as queue:
        yield queue


def test_due_jobs_are_run_in_claim_order_in_this_thread(jobs: tenure.Jobs, queue: TestQueue) -> None:
    done: list[tuple[int, threading.Thread]] = []

    @jobs.task
    def note(n: int) -> int:
        done.append((n, threading.current_thread()))
        return n

    note.enqueue(1)
    note.using(priority=3).enqueue(2)
    note.using(delay=60).enqueue(3)

    ended = queue.drain()

    assert done == [(2, threading.main_thread()), (1, threading.main_thread())]
    assert [(job.state, job.result) for job in ended] == [("completed", 2), ("completed", 1)]


def test_what_a_job_enqueues_is_run_as_well(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task
    def count_down(n: int) -> None:
        if n:
            count_down.enqueue(n - 1)

    count_down.enqueue(3)

    assert [job.payload["n"] for job in queue.drain()] == [3, 2, 1, 0]


def test_nothing_to_do_is_no_error(queue: TestQueue) -> None:
    assert queue.drain() == []


def test_what_a_task_raises_is_recorded_and_goes_on(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task
    def send() -> None:
        raise ValueError("no such address")

    send.enqueue()
    with pytest.raises(ValueError, match="no such address"):
        queue.drain()

    (job,) = queue.jobs
    assert (job.state, job.attempts) == ("queued", 1)
    assert "no such address" in job.errors[0]


def test_what_a_task_raises_can_be_only_recorded(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task(max_attempts=1)
    def send(n: int) -> None:
        if n == 1:
            raise ValueError("no such address")

    send.enqueue(1)
    send.enqueue(2)

    assert [job.state for job in queue.drain(raises=False)] == ["failed", "completed"]


def test_the_next_attempt_is_due_after_the_longest_back_off(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task(backoff=tenure.Backoff(first=10), max_attempts=3)
    def send() -> None:
        raise ValueError("no such address")

    send.enqueue()
    (first,) = queue.drain(raises=False)
    queue.advance(10)
    (second,) = queue.drain(raises=False)
    queue.advance(20)
    (third,) = queue.drain(raises=False)

    assert first.run_at - first.created_at == timedelta(seconds=10)
    assert second.run_at - second.created_at == timedelta(seconds=30)
    assert (third.state, third.attempts) == ("failed", 3)


def test_a_job_is_not_tried_again_after_an_exception_to_give_up_on(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task(give_up_on=LookupError)
    def send() -> None:
        raise KeyError("ada")

    send.enqueue()

    assert [job.state for job in queue.drain(raises=False)] == ["failed"]


ANSWERS: dict[str, tuple[tenure.Retry | tenure.Snooze | tenure.Fail | tenure.Cancel, str, int]] = {
    "retry": (tenure.Retry(delay=30), "queued", 1),
    "snooze": (tenure.Snooze(30), "queued", 0),
    "fail": (tenure.Fail("why"), "failed", 1),
    "cancel": (tenure.Cancel("why"), "cancelled", 1),
}


@pytest.mark.parametrize("is_raised", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_ends_the_job_and_goes_no_further(
    jobs: tenure.Jobs, queue: TestQueue, name: str, *, is_raised: bool
) -> None:
    answer, state, attempts = ANSWERS[name]

    @jobs.task
    def send() -> object:
        if is_raised:
            raise answer
        return answer

    send.enqueue()
    (job,) = queue.drain()

    assert (job.state, job.attempts) == (state, attempts)


def test_arguments_and_results_are_translated(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task
    def later(by: timedelta) -> timedelta:
        return by * 2

    id = later.enqueue(timedelta(minutes=1))
    queue.drain()

    assert later.result(id, timeout=0) == timedelta(minutes=2)


def test_the_run_is_current_and_its_progress_is_shown_at_once(jobs: tenure.Jobs, queue: TestQueue) -> None:
    shown = []

    @jobs.task
    def send() -> int:
        run = tenure.current()
        run.progress(3, of=10)
        shown.append(jobs.get(run.id))
        return run.attempt

    send.enqueue()
    (job,) = queue.drain()

    assert [each.progress for each in shown if each is not None] == [tenure.Progress(done=3, of=10)]
    assert job.result == 1
    with pytest.raises(tenure.NoClaim):
        tenure.current()


def test_blocks_are_put_around_each_run(jobs: tenure.Jobs, queue: TestQueue) -> None:
    seen: list[str] = []

    @jobs.around
    def in_app() -> Iterator[None]:
        seen.append(f"enter {tenure.current().job.type}")
        yield
        seen.append("leave")

    @jobs.task
    def send() -> None:
        seen.append("send")

    send.enqueue()
    queue.drain()

    assert seen == ["enter send", "send", "leave"]


@pytest.mark.parametrize("is_async", [False, True])
def test_context_variables_do_not_pass_from_one_run_to_the_next(
    jobs: tenure.Jobs, queue: TestQueue, *, is_async: bool
) -> None:
    def paint() -> str:
        before = colour.get()
        colour.set("red")
        return before

    async def paint_later() -> str:
        return paint()

    task = jobs.task("paint")(paint_later if is_async else paint)
    task.enqueue()
    task.enqueue()

    assert [job.result for job in queue.drain()] == ["none", "none"]
    assert colour.get() == "none"


def test_async_tasks_share_an_event_loop(jobs: tenure.Jobs, queue: TestQueue) -> None:
    loops = set()

    @jobs.task
    async def send() -> None:
        await asyncio.sleep(0)
        loops.add(asyncio.get_running_loop())

    send.enqueue()
    send.enqueue()

    assert [job.state for job in queue.drain()] == ["completed", "completed"]
    assert len(loops) == 1


@pytest.mark.parametrize("raised", [ValueError("wrong"), SystemExit(3), asyncio.CancelledError()])
def test_what_an_async_task_raises_is_recorded_and_goes_on(
    jobs: tenure.Jobs, queue: TestQueue, raised: BaseException
) -> None:
    @jobs.task
    async def send() -> None:
        raise raised

    send.enqueue()
    with pytest.raises(type(raised)):
        queue.drain()

    assert [len(job.errors) for job in queue.jobs] == [1]


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Make SIGINT raise KeyboardInterrupt, even if the parent process of the tests ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("is_async", [False, True])
def test_an_interrupt_releases_the_job_and_goes_on(jobs: tenure.Jobs, queue: TestQueue, *, is_async: bool) -> None:
    def send() -> None:
        signal.raise_signal(signal.SIGINT)

    async def send_later() -> None:
        send()
        await asyncio.sleep(60)

    jobs.task("send")(send_later if is_async else send).enqueue()
    with pytest.raises(KeyboardInterrupt):
        queue.drain(raises=False)

    assert [(job.state, job.attempts, job.errors) for job in queue.jobs] == [("queued", 0, [])]


def test_the_time_limit_of_an_async_task_is_enforced(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task(timeout=0.01)
    async def send() -> None:
        await asyncio.sleep(60)

    send.enqueue()
    with pytest.raises(TimeoutError, match=r"'send' exceeded its time limit of 0.01 seconds"):
        queue.drain()

    (job,) = queue.jobs
    assert "TimeoutError: 'send' exceeded its time limit of 0.01 seconds" in job.errors[0]


def test_inside_an_event_loop_it_says_what_to_use(queue: TestQueue) -> None:
    async def main() -> None:
        queue.drain()

    with pytest.raises(tenure.ConfigurationError, match=r"use `await queue.aio.drain\(\)`"):
        asyncio.run(main())


def test_inside_an_event_loop_tasks_of_both_kinds_are_run_on_it(jobs: tenure.Jobs, queue: TestQueue) -> None:
    seen = []

    @jobs.task
    async def plan() -> None:
        seen.append(asyncio.get_running_loop())
        await send.aio.enqueue()

    @jobs.task
    def send() -> None:
        seen.append(asyncio.get_running_loop())

    async def main() -> tuple[list[tenure.Job], asyncio.AbstractEventLoop]:
        await plan.aio.enqueue()
        return await queue.aio.drain(), asyncio.get_running_loop()

    ended, loop = asyncio.run(main())

    assert [job.type for job in ended] == ["plan", "send"]
    assert seen == [loop, loop]


def test_a_drain_that_is_cancelled_releases_its_job(jobs: tenure.Jobs, queue: TestQueue) -> None:
    async def main() -> None:
        draining: asyncio.Task[list[tenure.Job]]

        @jobs.task
        async def send() -> None:
            draining.cancel()
            await asyncio.sleep(60)

        send.enqueue()
        draining = asyncio.create_task(queue.aio.drain())
        with pytest.raises(asyncio.CancelledError):
            await draining

    asyncio.run(main())

    assert [(job.state, job.attempts, job.errors) for job in queue.jobs] == [("queued", 0, [])]


def test_a_task_may_settle_its_job_by_itself(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task
    def send() -> str:
        tenure.current().complete("by hand")
        return "by the worker"

    send.enqueue()

    assert [job.result for job in queue.drain()] == ["by hand"]


def test_a_claim_that_was_lost_is_told(jobs: tenure.Jobs, queue: TestQueue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    @jobs.task(max_crashes=1)
    def send() -> None:
        queue.advance(timedelta(days=2))
        jobs.reap()

    send.enqueue()
    with pytest.raises(tenure.ClaimLost):
        queue.drain()

    assert [job.state for job in queue.jobs] == ["failed"]


def test_a_due_job_without_a_task_is_left_and_told(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task
    def send() -> None: ...

    jobs.enqueue("resize")
    jobs.enqueue("paused", queue="slow")
    jobs.enqueue("later", delay=60)
    jobs.pause("slow")
    send.enqueue()

    with pytest.raises(tenure.UnknownTask, match=r"no registered task: 'resize' \(registered: 'send'\);"):
        queue.drain()

    assert queue.drain(raises=False) == []
    assert [(job.type, job.state) for job in queue.jobs if job.state != "queued"] == [("send", "completed")]


def test_a_task_that_is_registered_meanwhile_is_run(jobs: tenure.Jobs, queue: TestQueue) -> None:
    @jobs.task
    def load() -> None:
        jobs.task("loaded")(lambda: 7).enqueue()

    load.enqueue()

    assert [job.result for job in queue.drain()] == [None, 7]
