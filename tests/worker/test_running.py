"""A worker runs tasks and settles each job by the outcome of its task."""

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

import tenure.testing
from tenure.core.job import Outcome
from tenure.testing.conformance.building import FEWEST_DIGITS, limit_of_digits
from tests.worker.looking import DEADLINE, job_of, outcomes, until


def test_sync_and_async_tasks_are_run_and_their_results_kept(jobs: tenure.Jobs) -> None:
    @jobs.task
    def add(a: int, b: int) -> int:
        return a + b

    @jobs.task
    async def multiply(a: int, b: int = 3) -> int:
        await asyncio.sleep(0)
        return a * b

    added, multiplied = add.enqueue(1, 2), multiply.enqueue(5)
    summary = jobs.work(drain=True)

    assert (add.result(added), multiply.result(multiplied)) == (3, 15)
    assert (summary.completed, str(summary)) == (2, "2 completed")


def test_many_jobs_of_both_kinds_are_each_run_once(jobs: tenure.Jobs) -> None:
    runs: list[int] = []

    @jobs.task
    def in_thread(n: int) -> None:
        runs.append(n)

    @jobs.task
    async def on_loop(n: int) -> None:
        runs.append(n)

    jobs.enqueue_many((in_thread if n % 3 else on_loop).job(n) for n in range(600))
    summary = jobs.work(drain=True, concurrency=4)

    assert sorted(runs) == list(range(600))
    assert summary.completed == 600


def test_jobs_begin_in_the_order_of_their_claim(jobs: tenure.Jobs) -> None:
    runs: list[int] = []

    @jobs.task
    async def note(n: int) -> None:
        runs.append(n)

    jobs.enqueue_many(note.using(priority=n % 2).job(n) for n in range(50))
    jobs.work(drain=True, concurrency=1)

    assert runs == [*range(1, 50, 2), *range(0, 50, 2)]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_jobs_run_at_once_than_the_concurrency_whatever_their_kind(jobs: tenure.Jobs, concurrency: int) -> None:
    running, most, lock = 0, 0, threading.Lock()
    are_all_running = threading.Event()

    @contextmanager
    def counted() -> Iterator[None]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == concurrency:
                are_all_running.set()
        yield
        with lock:
            running -= 1

    @jobs.task
    def in_thread() -> None:
        with counted():
            are_all_running.wait(DEADLINE)
            time.sleep(0.002)

    @jobs.task
    async def on_loop() -> None:
        with counted():
            await asyncio.to_thread(are_all_running.wait, DEADLINE)
            await asyncio.sleep(0.002)

    jobs.enqueue_many((in_thread if n % 2 else on_loop).job() for n in range(60))
    jobs.work(drain=True, concurrency=concurrency)

    assert most == concurrency


def test_a_task_that_enqueues_is_drained_with_what_it_enqueued(jobs: tenure.Jobs) -> None:
    runs: list[int] = []

    @jobs.task
    def countdown(n: int) -> None:
        runs.append(n)
        if n:
            countdown.enqueue(n - 1)

    countdown.enqueue(5)
    jobs.work(drain=True)

    assert runs == [5, 4, 3, 2, 1, 0]


def test_a_job_that_is_due_later_is_not_waited_for_when_draining(jobs: tenure.Jobs) -> None:
    @jobs.task
    def work() -> None: ...

    later = work.using(delay=3600).enqueue()

    assert jobs.work(drain=True).completed == 0
    assert job_of(jobs, later).state == "queued"


@pytest.mark.parametrize("is_raised", [True, False])
@pytest.mark.parametrize(
    ("answer", "state", "outcome", "attempts"),
    [
        (tenure.Retry(delay=3600), "queued", Outcome.RETRIED, 1),
        (tenure.Snooze(3600), "queued", Outcome.SNOOZED, 0),
        (tenure.Fail("broken"), "failed", Outcome.FAILED, 1),
        (tenure.Cancel("not needed"), "cancelled", Outcome.CANCELLED, 1),
    ],
)
def test_answers_are_the_same_returned_or_raised(
    jobs: tenure.Jobs, answer: Exception, state: str, outcome: Outcome, attempts: int, *, is_raised: bool
) -> None:
    def do() -> object:
        if is_raised:
            raise answer
        return answer

    @jobs.task
    def in_thread() -> object:
        return do()

    @jobs.task
    async def on_loop() -> object:
        return do()

    ids = [in_thread.enqueue(), on_loop.enqueue()]
    jobs.work(drain=True)

    for id in ids:
        job = job_of(jobs, id)
        assert (job.state, outcomes(job), job.attempts) == (state, [outcome], attempts)


def test_a_failing_task_is_tried_again_until_its_attempts_are_spent(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task(max_attempts=3)
    def fails() -> None:
        raise ValueError("no luck")

    id = fails.enqueue()
    summary = jobs.work(drain=True)

    job = job_of(jobs, id)
    assert (job.state, job.attempts, len(job.errors)) == ("failed", 3, 3)
    assert "no luck" in job.errors[0]
    assert summary.failed == 3
    assert [record.levelname for record in caplog.records if "fails" in record.message] == [
        "WARNING",
        "WARNING",
        "ERROR",
    ]


def test_a_traceback_begins_in_the_code_of_the_task(jobs: tenure.Jobs) -> None:
    @jobs.task(max_attempts=1)
    def in_thread() -> None:
        raise ValueError("no luck")

    @jobs.task(max_attempts=1)
    async def on_loop() -> None:
        raise ValueError("no luck")

    ids = [in_thread.enqueue(), on_loop.enqueue()]
    jobs.work(drain=True)

    for id in ids:
        (error,) = job_of(jobs, id).errors
        assert error.count("File ") == 1
        assert "in in_thread" in error or "in on_loop" in error


def test_an_exception_to_give_up_on_is_not_tried_again(jobs: tenure.Jobs) -> None:
    @jobs.task(give_up_on=(KeyError, LookupError))
    def fails() -> None:
        raise IndexError("none")

    id = fails.enqueue()
    jobs.work(drain=True)

    assert (job_of(jobs, id).state, job_of(jobs, id).attempts) == ("failed", 1)


def test_the_back_off_of_a_task_goes_before_that_of_the_jobs(jobs: tenure.Jobs) -> None:
    @jobs.task(backoff=tenure.Backoff(first=10_000, cap=10_000))
    def fails() -> None:
        raise ValueError

    id = fails.enqueue()
    jobs.work(drain=True)

    job = job_of(jobs, id)
    assert (job.state, job.attempts) == ("queued", 1)
    assert job.run_at > job.history[0].ended_at


def test_an_exit_raised_by_a_task_is_its_failure_and_the_worker_goes_on(jobs: tenure.Jobs) -> None:
    @jobs.task(max_attempts=1)
    def in_thread() -> None:
        raise SystemExit(3)

    @jobs.task(max_attempts=1)
    async def on_loop() -> None:
        raise SystemExit(3)

    @jobs.task(max_attempts=1)
    async def cancels() -> None:
        raise asyncio.CancelledError

    @jobs.task
    def after() -> str:
        return "done"

    ids = [in_thread.enqueue(), on_loop.enqueue(), cancels.enqueue()]
    last = after.using(priority=-1).enqueue()
    jobs.work(drain=True, concurrency=1)

    assert [job_of(jobs, id).state for id in ids] == ["failed", "failed", "failed"]
    assert after.result(last) == "done"


def test_an_exception_that_cannot_be_shown_is_recorded(jobs: tenure.Jobs) -> None:
    class Odd(Exception):  # noqa: N818 - only for this test
        def __str__(self) -> str:
            raise RuntimeError

    @jobs.task(max_attempts=1)
    def fails() -> None:
        raise Odd

    id = fails.enqueue()
    jobs.work(drain=True)

    assert "Odd" in job_of(jobs, id).errors[0]


def test_a_result_that_cannot_be_kept_is_dropped_and_the_job_completed(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    def gives() -> object:
        return {1, 2}

    id = gives.enqueue()
    jobs.work(drain=True)

    assert (job_of(jobs, id).state, job_of(jobs, id).result_dropped) == ("completed", True)
    assert "completed, but its result was dropped: cannot encode set" in caplog.text
    with pytest.raises(tenure.InvalidPayload, match="its result was dropped"):
        gives.result(id)


def test_a_payload_that_does_not_fit_is_a_failure_and_is_not_logged(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task(max_attempts=1)
    def greet(name: str) -> None: ...

    id = jobs.enqueue("greet", {"nmae": "a secret"}, max_attempts=1)
    jobs.work(drain=True)

    assert "'nmae'" in job_of(jobs, id).errors[0]
    assert "secret" not in caplog.text
    assert "the payload or the result does not match the annotations; see the errors of the job" in caplog.text


def test_a_payload_that_python_cannot_read_fails_its_job_for_good_and_no_other(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task(max_attempts=3)
    def greet(name: int) -> None: ...

    ids = [greet.enqueue(1), greet.enqueue(10**FEWEST_DIGITS), greet.enqueue(2)]
    with limit_of_digits(FEWEST_DIGITS):
        jobs.work(drain=True)

    assert [job_of(jobs, id).state for id in ids] == ["completed", "failed", "completed"]
    (error,) = job_of(jobs, ids[1]).errors
    assert error.startswith("the payload cannot be read: Exceeds the limit (640 digits)")
    assert f"job {ids[1]} (greet) failed permanently" in caplog.text


def test_a_task_that_is_not_async_but_returns_a_coroutine_fails(jobs: tenure.Jobs) -> None:
    async def really() -> int:
        return 1

    @jobs.task(max_attempts=1)
    def looks_sync() -> object:
        return really()

    id = looks_sync.enqueue()
    jobs.work(drain=True)

    assert "returned a coroutine; define it with `async def`" in job_of(jobs, id).errors[0]


def test_the_current_run_is_that_of_the_job(jobs: tenure.Jobs) -> None:
    seen: dict[str, tuple[str, int, int, str]] = {}

    def look(kind: str) -> None:
        run = tenure.current()
        seen[kind] = run.id, run.attempt, run.fence, run.idempotency_key

    @jobs.task
    def in_thread() -> None:
        look("sync")

    @jobs.task
    async def on_loop() -> None:
        await asyncio.sleep(0)
        look("async")
        if tenure.current().attempt == 1:
            raise tenure.Retry(0)

    sync, on = in_thread.enqueue(), on_loop.enqueue()
    jobs.work(drain=True)

    assert seen == {"sync": (sync, 1, 1, sync), "async": (on, 2, 2, on)}
    with pytest.raises(tenure.NoClaim, match=r"no job is running here"):
        tenure.current()


def test_what_a_task_leaves_in_context_variables_is_gone_for_the_next(jobs: tenure.Jobs) -> None:
    secret: contextvars.ContextVar[int] = contextvars.ContextVar("secret", default=0)
    seen: list[int] = []

    @jobs.task
    def in_thread() -> None:
        seen.append(secret.get())
        secret.set(1)

    @jobs.task
    async def on_loop() -> None:
        seen.append(secret.get())
        secret.set(1)

    jobs.enqueue_many([in_thread.job(), in_thread.job(), on_loop.job(), on_loop.job(), in_thread.job()])
    jobs.work(drain=True, concurrency=1)

    assert seen == [0] * 5


def test_handlers_of_both_kinds_see_the_context_of_the_caller_and_of_the_lifespan(jobs: tenure.Jobs) -> None:
    caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="")
    lifespan: contextvars.ContextVar[str] = contextvars.ContextVar("lifespan", default="")

    @jobs.lifespan
    def set_it() -> Iterator[None]:
        lifespan.set("set")
        yield

    @jobs.task
    def in_thread() -> list[str]:
        return [caller.get(), lifespan.get()]

    @jobs.task
    async def on_loop() -> list[str]:
        return [caller.get(), lifespan.get()]

    caller.set("set")
    ids = [in_thread.enqueue(), on_loop.enqueue()]
    jobs.work(drain=True)

    assert [job_of(jobs, id).result for id in ids] == [["set", "set"]] * 2


def test_a_task_that_cancels_itself_does_not_harm_the_next(jobs: tenure.Jobs) -> None:
    @jobs.task(max_attempts=1)
    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    @jobs.task(max_attempts=1)
    async def after() -> str:
        await asyncio.sleep(0)
        return "done"

    jobs.enqueue_many([cancels.job(), cancels.job()])
    ids = jobs.enqueue_many([after.job(), after.job()])
    jobs.work(drain=True, concurrency=1)

    assert [after.result(id) for id in ids] == ["done", "done"]


def test_blocks_are_put_around_each_run_the_first_outermost(jobs: tenure.Jobs) -> None:
    steps: list[str] = []

    @jobs.around
    def outer() -> Iterator[None]:
        steps.append(f"outer of {tenure.current().job.type}")
        yield
        steps.append("outer left")

    @jobs.around
    @contextmanager
    def inner() -> Iterator[None]:
        try:
            yield
        except ValueError as exc:
            steps.append(f"inner saw {exc}")
            raise

    @jobs.task(max_attempts=1)
    def in_thread() -> None:
        steps.append("run")

    @jobs.task(max_attempts=1)
    async def on_loop() -> None:
        raise ValueError("wrong")

    jobs.enqueue_many([in_thread.job(), on_loop.job()])
    jobs.work(drain=True, concurrency=1)

    assert steps == ["outer of in_thread", "run", "outer left", "outer of on_loop", "inner saw wrong"]


def test_an_async_block_is_put_around_async_tasks_and_refused_for_others(jobs: tenure.Jobs) -> None:
    steps: list[str] = []

    @jobs.around
    async def block() -> AsyncIterator[None]:
        await asyncio.sleep(0)
        steps.append("in")
        yield
        steps.append("out")

    @jobs.task
    async def on_loop() -> None: ...

    on_loop.enqueue()
    jobs.work(drain=True)
    assert steps == ["in", "out"]

    @jobs.task
    def in_thread() -> None: ...

    with pytest.raises(
        tenure.ConfigurationError, match="'block' is an async context manager and cannot wrap the synchronous task"
    ):
        jobs.work(drain=True)


def test_a_lifespan_is_entered_before_the_first_run_and_left_after_the_last(jobs: tenure.Jobs) -> None:
    steps: list[str] = []

    @jobs.lifespan
    async def pool() -> AsyncIterator[None]:
        steps.append("open")
        yield
        steps.append("closed")

    @jobs.lifespan
    @contextmanager
    def second() -> Iterator[None]:
        steps.append("second")
        yield

    @jobs.task
    def work() -> None:
        steps.append("run")

    work.enqueue()
    jobs.work(drain=True)

    assert steps == ["open", "second", "run", "closed"]


def test_a_lifespan_that_fails_is_raised_and_no_job_is_claimed(jobs: tenure.Jobs) -> None:
    @jobs.lifespan
    def pool() -> Iterator[None]:
        if jobs.tasks:
            raise OSError("no pool")
        yield

    @jobs.task
    def work() -> None: ...

    id = work.enqueue()
    with pytest.raises(OSError, match="no pool"):
        jobs.work(drain=True)

    assert (job_of(jobs, id).state, job_of(jobs, id).attempts) == ("queued", 0)


def test_a_lifespan_that_fails_at_its_end_is_raised(jobs: tenure.Jobs) -> None:
    @jobs.lifespan
    def pool() -> Iterator[None]:
        yield
        raise OSError("not closed")

    @jobs.task
    def work() -> None: ...

    id = work.enqueue()
    with pytest.raises(OSError, match="not closed"):
        jobs.work(drain=True)

    assert job_of(jobs, id).state == "completed"


def test_progress_is_seen_while_the_task_runs(jobs: tenure.Jobs) -> None:
    seen = threading.Event()

    @jobs.task
    def work() -> None:
        for n in range(100):
            tenure.current().progress(n, of=100, note="on the way")
        assert seen.wait(DEADLINE)

    id = work.enqueue()
    with jobs.worker():
        until(lambda: (progress := job_of(jobs, id).progress) is not None and progress.done == 99)
        seen.set()

    assert job_of(jobs, id).progress == tenure.Progress(done=99, of=100, note="on the way")


def test_a_task_that_completes_in_a_transaction_is_left_alone(tmp_path: object) -> None:
    with tenure.Jobs(f"sqlite:///{tmp_path}/jobs.db") as jobs:

        @jobs.task
        def in_thread() -> str:
            with tenure.current().transaction() as connection:
                connection.execute("create table effect (n)")
            return "not the result"

        @jobs.task
        async def on_loop() -> None:
            with tenure.current().transaction() as connection:
                connection.execute("insert into effect values (1)")

        first, second = in_thread.enqueue(), on_loop.enqueue()
        summary = jobs.work(drain=True, concurrency=1)

        assert [job_of(jobs, id).state for id in (first, second)] == ["completed", "completed"]
        assert job_of(jobs, first).result is None
        assert (summary.completed, summary.lost) == (2, 0)


def test_types_and_queues_choose_what_is_run(jobs: tenure.Jobs) -> None:
    @jobs.task(queue="mail")
    def send() -> None: ...

    @jobs.task
    def other() -> None: ...

    sent, kept, elsewhere = send.enqueue(), other.enqueue(), send.using(queue="slow").enqueue()
    jobs.work(drain=True, types="send", queues="mail")

    assert [job_of(jobs, id).state for id in (sent, kept, elsewhere)] == ["completed", "queued", "queued"]


def test_jobs_of_a_type_that_no_worker_knows_stay_queued_and_are_told_about(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    def known() -> None: ...

    id = jobs.enqueue("unknown")
    with jobs.worker():
        known.result(known.enqueue(), timeout=DEADLINE)
        until(lambda: "has no live worker" in caplog.text)

    assert "type 'unknown' from queue 'default' has no live worker; due jobs waiting: 1" in caplog.text
    assert job_of(jobs, id).state == "queued"


def test_a_worker_is_shown_while_it_runs_and_not_after(jobs: tenure.Jobs) -> None:
    @jobs.task
    def work() -> None: ...

    with jobs.worker(name="w1", queues="mail", concurrency=3) as worker:
        (shown,) = jobs.workers()

    assert (shown.name, shown.queues, shown.types, shown.concurrency) == (worker.name, ("mail",), ("work",), 3)
    assert worker.name.startswith("w1@")
    assert jobs.workers() == []


def test_what_cannot_be_used_is_refused_before_anything_is_claimed(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match="there are no tasks to run"):
        jobs.work(drain=True)

    @jobs.task
    def work() -> None: ...

    with pytest.raises(tenure.UnknownTask, match=r"'wrok'.*did you mean 'work'"):
        jobs.work(types="wrok")
    with pytest.raises(tenure.ConfigurationError, match="work has no option 'concurency'; did you mean 'concurrency'"):
        jobs.work(concurency=3)  # type: ignore[call-arg]
    with pytest.raises(tenure.ConfigurationError, match="concurrency must be 1 to 1,000, not 0"):
        jobs.work(concurrency=0)
    with pytest.raises(tenure.ConfigurationError, match="lease must be 1 to 86,400 seconds"):
        jobs.work(lease=0.5)


def test_a_worker_says_what_it_does(jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.task
    def work() -> None: ...

    caplog.set_level(logging.INFO)
    work.enqueue()
    jobs.work(drain=True, name="w1")

    assert "started: tasks work from all queues; concurrency 10" in caplog.text
    assert "stopped: 1 completed" in caplog.text


def test_a_worker_runs_on_the_event_loop_of_the_caller(jobs: tenure.Jobs) -> None:
    threads: list[int] = []

    @jobs.task
    async def on_loop() -> str:
        threads.append(threading.get_ident())
        return "done"

    async def main() -> tuple[str, int, int]:
        async with jobs.aio.worker() as worker:
            id = await on_loop.aio.enqueue()
            result = await on_loop.aio.result(id, timeout=DEADLINE)
        await on_loop.aio.enqueue()
        drained = await jobs.aio.work(drain=True)
        return result, worker.summary.completed, drained.completed

    assert asyncio.run(main()) == ("done", 1, 1)
    assert set(threads) == {threading.get_ident()}


def test_a_worker_that_cannot_begin_says_why(tmp_path: object) -> None:
    (tmp_path / "jobs.db").write_bytes(b"no database" * 100)  # type: ignore[operator]
    with tenure.Jobs(f"sqlite:///{tmp_path}/jobs.db") as jobs:

        @jobs.task
        async def work() -> None: ...

        async def main() -> None:
            async with jobs.aio.worker():
                pass

        with pytest.raises(tenure.StoreUnavailable):
            jobs.work()
        with pytest.raises(tenure.StoreUnavailable):
            asyncio.run(main())


def test_context_variables_whose_values_cannot_be_compared_do_no_harm(jobs: tenure.Jobs) -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise ValueError("cannot be compared")

    odd: contextvars.ContextVar[Odd] = contextvars.ContextVar("odd")
    odd.set(Odd())

    @jobs.task
    async def changes() -> None:
        odd.set(Odd())

    jobs.enqueue_many(changes.job() for _ in range(5))

    assert jobs.work(drain=True, concurrency=2).completed == 5


def test_an_equal_value_in_a_context_variable_is_not_the_one_before(jobs: tenure.Jobs) -> None:
    bag: contextvars.ContextVar[list[int]] = contextvars.ContextVar("bag")
    first: list[int] = []
    bag.set(first)
    seen: list[bool] = []

    @jobs.task
    async def changes() -> None:
        seen.append(bag.get() is first)
        bag.set([])

    jobs.enqueue_many(changes.job() for _ in range(3))
    jobs.work(drain=True, concurrency=1)

    assert seen == [True, True, True]


def test_slots_that_somebody_cancels_are_replaced(jobs: tenure.Jobs) -> None:
    @jobs.task
    async def work() -> str:
        return "done"

    async def main() -> list[str]:
        results = []
        async with jobs.aio.worker(concurrency=2):
            for _ in range(5):
                ids = await jobs.aio.enqueue_many([work.job(), work.job()])
                results += [await work.aio.result(id, timeout=DEADLINE) for id in ids]
                for task in asyncio.all_tasks():
                    if task.get_name() == "tenure-slot":
                        task.cancel()
        return results

    assert asyncio.run(main()) == ["done"] * 10


def test_what_a_task_raises_after_it_settled_itself_is_told(
    jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    def work() -> None:
        tenure.current().complete("done")
        raise ValueError("too late")

    id = work.enqueue()
    jobs.work(drain=True)

    assert job_of(jobs, id).result == "done"
    assert f"job {id} is already completed; ignoring a later exception: ValueError: too late" in caplog.text


def test_answers_that_end_or_repeat_a_job_are_logged(jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.task
    def fails() -> None:
        raise tenure.Fail("the file is empty")

    @jobs.task
    def again() -> object:
        return tenure.Retry(3600, why="not yet")

    jobs.enqueue_many([fails.job(), again.job()])
    jobs.work(drain=True)

    assert "(fails) failed permanently: Fail: Fail('the file is empty')" in caplog.text
    assert "(again) failed, attempt 1 of 5, retrying in 3600.0 s: Retry: Retry(3600.0, 'not yet')" in caplog.text


def test_a_slot_that_was_cancelled_takes_no_run(jobs: tenure.Jobs) -> None:
    @jobs.task
    async def work() -> str:
        return "done"

    async def main() -> bool:
        async with jobs.aio.worker(concurrency=1) as worker:
            await work.aio.result(await work.aio.enqueue(), timeout=DEADLINE)
            slots = worker.sync._async_executor
            assert slots is not None
            (slot,) = slots.idle
            slot.task.cancel()
            with tenure.testing.claim() as run:
                takes_it = slot.assign(run)
            assert await work.aio.result(await work.aio.enqueue(), timeout=DEADLINE) == "done"
        return takes_it

    assert not asyncio.run(main())
