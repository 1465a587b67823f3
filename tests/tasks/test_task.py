"""Functions as tasks."""

import asyncio
import functools
import importlib.util
import inspect
import pickle
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import tenure


@pytest.fixture
def jobs() -> tenure.Jobs:
    return tenure.Jobs("memory://")


def job_of(jobs: tenure.Jobs, id: str) -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job


def test_calling_a_task_is_a_plain_call_and_stores_nothing(jobs: tenure.Jobs) -> None:
    @jobs.task
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @jobs.task
    async def add_later(a: int) -> int:
        return a

    assert add(1) == 3
    assert asyncio.run(add_later(4)) == 4
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"
    assert jobs.stats().rows == ()


def test_a_call_is_stored_by_the_names_of_its_arguments_without_defaults(jobs: tenure.Jobs) -> None:
    @jobs.task(queue="mail", priority=3, max_attempts=7, max_crashes=2, timeout=30)
    def send(message: int, to: str, *, copy: bool = False) -> None: ...

    job = job_of(jobs, send.enqueue(7, "ada@example.org"))

    assert (job.type, job.payload) == ("send", {"message": 7, "to": "ada@example.org"})
    assert (job.queue, job.priority, job.max_attempts, job.max_crashes, job.timeout) == ("mail", 3, 7, 2, 30)
    assert job_of(jobs, send.enqueue(to="bob", message=8, copy=True)).payload == {
        "message": 8,
        "to": "bob",
        "copy": True,
    }


def test_options_never_share_a_call_with_arguments(jobs: tenure.Jobs) -> None:
    @jobs.task
    def send(priority: str, queue: str) -> None: ...

    call = send.using(
        queue="mail",
        priority=3,
        delay=60,
        key="k",
        max_attempts=None,
        meta={"a": "b"},
        id="m7",
        timeout=timedelta(minutes=1),
    )
    job = job_of(jobs, call.enqueue("high", "long"))

    assert (job.id, job.payload) == ("m7", {"priority": "high", "queue": "long"})
    assert (job.queue, job.priority, job.key, job.max_attempts) == ("mail", 3, "k", None)
    assert (job.timeout, job.meta) == (60, {"a": "b"})
    assert job.run_at == job.created_at + timedelta(seconds=60)


def test_options_of_a_call_leave_the_task_as_it_was(jobs: tenure.Jobs) -> None:
    @jobs.task(queue="mail", max_attempts=2)
    def send() -> None: ...

    send.using(queue="slow", priority=9)

    job = job_of(jobs, send.enqueue())
    assert (job.queue, job.priority, job.max_attempts) == ("mail", 0, 2)
    assert job_of(jobs, send.using(priority=1).enqueue()).queue == "mail"


def test_an_unknown_option_is_refused_with_the_nearest(jobs: tenure.Jobs) -> None:
    @jobs.task
    def send() -> None: ...

    with pytest.raises(tenure.ConfigurationError, match=r"send.using has no option 'priorty'; did you mean 'priority'"):
        send.using(priorty=3)  # type: ignore[call-arg]
    with pytest.raises(tenure.ConfigurationError, match="did you mean 'max_attempts'"):
        jobs.task(max_attempt=3)  # type: ignore[call-overload]


def test_several_calls_are_enqueued_all_or_none(jobs: tenure.Jobs) -> None:
    @jobs.task
    def send(n: int) -> None: ...

    ids = jobs.enqueue_many(send.using(queue="mail").job(n) for n in range(3))

    assert [job_of(jobs, id).payload["n"] for id in ids] == [0, 1, 2]


def test_a_call_that_the_function_would_not_take_is_refused(jobs: tenure.Jobs) -> None:
    @jobs.task
    def send(message: int, to: str = "") -> None: ...

    for call in (send.enqueue, send.using(priority=1).enqueue, send.job):
        loose: Callable[..., object] = call
        with pytest.raises(tenure.ConfigurationError, match="message"):
            loose()
        with pytest.raises(tenure.ConfigurationError, match="subject"):
            loose(7, subject="x")

    assert jobs.stats().rows == ()


def test_a_task_is_enqueued_in_the_transaction_of_a_connection(tmp_path: Path) -> None:
    with tenure.Jobs(f"sqlite:///{tmp_path}/jobs.db") as jobs:

        @jobs.task
        def charge(order: int) -> None: ...

        @jobs.task
        def receipt(order: int) -> None: ...

        id = charge.enqueue(7)
        for claim in jobs.claim(types="charge"):
            with claim.transaction() as connection:
                receipt.using(connection=connection).enqueue(7)

        assert job_of(jobs, id).state == "completed"
        assert jobs.stats().total("due") == 1


def test_the_type_is_the_name_of_the_function_unless_one_is_given(jobs: tenure.Jobs) -> None:
    @jobs.task("mail.send")
    def send() -> None: ...

    @jobs.task()
    def other() -> None: ...

    assert (send.type, other.type, list(jobs.tasks)) == ("mail.send", "other", ["mail.send", "other"])
    assert repr(send) == "<Task 'mail.send'>"


def test_a_second_function_under_one_type_is_refused(jobs: tenure.Jobs) -> None:
    @jobs.task
    def send() -> None: ...

    def another() -> None: ...

    with pytest.raises(tenure.DuplicateTask, match=r"type 'send' is registered twice: for .*send and for .*another"):
        jobs.task("send")(another)

    assert jobs.tasks["send"] is send


def test_a_module_that_is_loaded_again_defines_its_tasks_again(jobs: tenure.Jobs, tmp_path: Path) -> None:
    module = tmp_path / "mail.py"
    module.write_text("def send():\n    return 1\n")

    def load() -> Callable[[], int]:
        spec = importlib.util.spec_from_file_location("mail", module)
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        function: Callable[[], int] = loaded.send
        return function

    jobs.task(load())
    again = jobs.task(load())

    assert jobs.tasks["send"] is again


def test_two_jobs_do_not_know_each_others_tasks() -> None:
    first, second = tenure.Jobs("memory://"), tenure.Jobs("memory://")

    @first.task
    def send() -> None: ...

    assert second.tasks == {}
    assert second.task(send.function).jobs is second


@pytest.mark.parametrize("value", [7, None, "send"])
def test_what_is_no_function_is_no_task(jobs: tenure.Jobs, value: object) -> None:
    with pytest.raises(tenure.ConfigurationError, match="a task must be a function, not"):
        jobs.task("send")(value)  # type: ignore[call-overload]


def test_a_function_that_yields_is_no_task(jobs: tenure.Jobs) -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def more() -> AsyncIterator[int]:
        yield 1

    for function in (numbers, more):
        with pytest.raises(tenure.ConfigurationError, match="has a yield; a task must return its result"):
            jobs.task(function)


def test_a_callable_without_a_name_needs_a_type(jobs: tenure.Jobs) -> None:
    def power(base: int, exponent: int) -> int:
        return int(base**exponent)

    square = functools.partial(power, exponent=2)

    with pytest.raises(tenure.ConfigurationError, match=r"has no name; pass the type: @jobs.task\('name'\)"):
        jobs.task(square)
    with pytest.raises(tenure.ConfigurationError, match="has no name; pass the type"):
        jobs.task(lambda: 1)
    task = jobs.task("square")(square)
    id = task.enqueue(base=3)
    jobs.work(drain=True)
    assert task.result(id) == 9


def test_an_object_with_an_async_call_is_an_async_task(jobs: tenure.Jobs) -> None:
    class Sender:
        async def __call__(self, to: str) -> str:
            return f"sent to {to}"

    send = jobs.task("send")(Sender())
    id = send.enqueue("ada")
    jobs.work(drain=True)

    assert send.is_async
    assert send.result(id) == "sent to ada"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": ""}, "queue must have 1 to 200 characters"),
        ({"priority": 40_000}, "priority must be"),
        ({"max_attempts": 0}, "max_attempts must be 1"),
        ({"timeout": 0}, "timeout must be"),
        ({"backoff": 3}, "backoff must be a tenure.Backoff, not 3"),
        ({"give_up_on": ("ValueError",)}, "give_up_on must be exceptions"),
        ({"give_up_on": KeyboardInterrupt}, "give_up_on must be exceptions"),
    ],
)
def test_an_option_that_cannot_be_used_is_told_where_the_task_is_written(
    jobs: tenure.Jobs, options: dict[str, object], text: str
) -> None:
    def send() -> None: ...

    with pytest.raises(tenure.ConfigurationError, match=text):
        jobs.task(**options)(send)  # type: ignore[call-overload]


def test_a_result_comes_back_as_the_function_returned_it(jobs: tenure.Jobs) -> None:
    @jobs.task
    def tomorrow(day: date) -> date:
        return day + timedelta(days=1)

    id = tomorrow.enqueue(date(2026, 12, 31))
    jobs.work(drain=True)

    assert tomorrow.result(id) == date(2027, 1, 1)
    assert job_of(jobs, id).result == "2027-01-01"


def test_a_result_is_waited_for(jobs: tenure.Jobs) -> None:
    @jobs.task
    def now() -> datetime:
        return datetime.now(UTC)

    async def main() -> datetime:
        return await now.aio.result(await now.aio.enqueue(), timeout=60)

    with jobs.worker():
        assert now.result(now.enqueue(), timeout=60) <= asyncio.run(main())


def test_a_job_that_ends_without_a_result_raises_how_it_ended(jobs: tenure.Jobs) -> None:
    @jobs.task(max_attempts=1)
    def fails() -> None:
        raise ValueError("no luck")

    failed, cancelled, waiting = fails.enqueue(), fails.enqueue(), fails.using(delay=60).enqueue()
    jobs.cancel(cancelled)
    jobs.work(drain=True)

    with pytest.raises(tenure.JobFailed, match="failed: ValueError: no luck") as raised:
        fails.result(failed)
    with pytest.raises(tenure.JobCancelled, match="was cancelled"):
        asyncio.run(fails.aio.result(cancelled))
    with pytest.raises(TimeoutError, match=r"did not finish within 0.01 seconds"):
        fails.result(waiting, timeout=0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(fails.aio.result(waiting, timeout=0))
    with pytest.raises(tenure.ConfigurationError, match="there is no job 'nowhere'"):
        fails.result("nowhere")
    assert raised.value.id == failed


def test_the_result_of_another_task_is_refused(jobs: tenure.Jobs) -> None:
    @jobs.task
    def one() -> int:
        return 1

    @jobs.task
    def two() -> int:
        return 2

    id = one.enqueue()
    jobs.work(drain=True)

    with pytest.raises(tenure.ConfigurationError, match="has type 'one', not 'two'"):
        two.result(id)


def test_the_awaited_twin_of_a_task_enqueues_the_same(jobs: tenure.Jobs) -> None:
    @jobs.task(queue="mail")
    def send(to: str) -> None: ...

    async def main() -> list[str]:
        return [
            await send.aio.enqueue("ada"),
            await send.aio.using(priority=3).enqueue("bob"),
            *await jobs.aio.enqueue_many([send.aio.job("eve"), send.aio.using(id="a").job("joe")]),
        ]

    found = [job_of(jobs, id) for id in asyncio.run(main())]

    assert [(job.payload["to"], job.queue, job.priority) for job in found] == [
        ("ada", "mail", 0),
        ("bob", "mail", 3),
        ("eve", "mail", 0),
        ("joe", "mail", 0),
    ]
    assert repr(send.aio) == "<AsyncTask 'send'>"
    assert send.aio.type == "send"


def test_a_task_is_registered_with_either_twin(jobs: tenure.Jobs) -> None:
    @jobs.aio.task(queue="mail")
    async def send(to: str) -> str:
        return to

    assert jobs.tasks["send"] is send is jobs.aio.tasks["send"]


def test_blocks_that_cannot_be_used_are_refused(jobs: tenure.Jobs) -> None:
    async def coroutine() -> None: ...

    def wants(argument: int) -> None: ...

    with pytest.raises(
        tenure.ConfigurationError, match="around needs a function with a yield, or one that returns a context manager"
    ):
        jobs.around(coroutine)
    with pytest.raises(tenure.ConfigurationError, match="lifespan needs a function"):
        jobs.lifespan(7)  # type: ignore[type-var]
    with pytest.raises(tenure.ConfigurationError, match=r"around needs a function without arguments, not .*wants"):
        jobs.around(wants)


def test_a_method_is_no_task(jobs: tenure.Jobs) -> None:
    class Mail:
        def send(self) -> None: ...

    with pytest.raises(tenure.ConfigurationError, match="is a method; a task must be a function"):
        jobs.task(Mail.send)


def test_functions_of_one_factory_under_one_type_are_refused(jobs: tenure.Jobs) -> None:
    def make(number: int) -> tenure.Task[[], int, int]:
        @jobs.task("work")
        def work() -> int:
            return number

        return work

    make(1)
    with pytest.raises(tenure.DuplicateTask):
        make(2)


def test_attributes_of_a_function_stay_its_own(jobs: tenure.Jobs) -> None:
    def send(to: str) -> None: ...

    send.type = "evil"  # type: ignore[attr-defined]
    send.arguments = None  # type: ignore[attr-defined]
    task = jobs.task("good")(send)

    assert task.type == "good"
    assert job_of(jobs, task.enqueue("ada")).payload == {"to": "ada"}


def test_a_task_of_another_jobs_gets_no_schedule_here(jobs: tenure.Jobs) -> None:
    other = tenure.Jobs("memory://")

    @other.task
    def report() -> None: ...

    with pytest.raises(tenure.ConfigurationError, match="belongs to another Jobs"):
        jobs.cron("@daily")(report)
    with pytest.raises(tenure.ConfigurationError, match="expression must be text"):
        jobs.cron(report)  # type: ignore[arg-type]


def test_a_class_is_no_task(jobs: tenure.Jobs) -> None:
    class Send: ...

    with pytest.raises(tenure.ConfigurationError, match="is a class; a task must be a function"):
        jobs.task(Send)


def test_waiting_for_a_result_counts_the_time_that_looking_takes(
    jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    @jobs.task
    def never() -> None: ...

    id, looks = never.enqueue(), []

    def look(id: str) -> tenure.Job | None:
        looks.append(id)
        time.sleep(0.05)
        return tenure.Jobs.get(jobs, id)

    monkeypatch.setattr(jobs, "get", look)
    with pytest.raises(TimeoutError):
        never.result(id, timeout=0.1)

    assert len(looks) < 6


def test_a_task_can_be_pickled_by_its_place() -> None:
    assert pickle.loads(pickle.dumps(in_a_module)) is in_a_module  # noqa: S301 - made here


somewhere = tenure.Jobs("memory://")


@somewhere.task
def in_a_module() -> None: ...
