"""The async facades have the methods, results and errors of the sync classes."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tenure
from tenure.backends.memory import Memory
from tenure.backends.protocol import Backend
from tenure.client.aio.threads import OPERATION_THREADS
from tests.jobs.gates import Gate, our_threads, until


@pytest.fixture
def store() -> Memory:
    return Memory()


@pytest.fixture
def ajobs(store: Backend) -> Iterator[tenure.AsyncJobs]:
    with tenure.Jobs(store) as jobs:
        yield jobs.aio


def claim_one(ajobs: tenure.AsyncJobs) -> tenure.AsyncClaim:
    async def claim() -> tenure.AsyncClaim:
        await ajobs.enqueue("work")
        (claim,) = await ajobs.claim()
        return claim

    return asyncio.run(claim())


def state_of(ajobs: tenure.AsyncJobs, claim: tenure.AsyncClaim) -> str:
    job = ajobs.sync.get(claim.id)
    assert job is not None
    return str(job.state)


def verbs(kind: type) -> dict[str, Callable[..., object]]:
    ours = [vars(each) for each in reversed(kind.__mro__) if each.__module__.startswith("tenure.")]
    return {name: each for own in ours for name, each in own.items() if callable(each) and not name.startswith("_")}


def options_of(verb: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(verb).parameters.values())[1:]


INTERNAL = {
    "completion",
    "completion_without_result",
    "record_settlement",
    "settlement_for_error",
    "settlement_for_result",
    "failure",
    "is_own_loss",
    "settle_on_exit",
    "lost_error",
    "require_held",
    "require_recorded",
    "verify",
    "settle",
    "transaction_on",
    "is_in_this_process",
    "needs_commit_check",
    "extend_unless_locked",
    "has_unknown_outcome",
    "reopen_if_rolled_back",
}
"""Methods of `Claim` that are internal to tenure."""

REGISTERING = {"task", "cron", "around", "lifespan", "handler"}
"""Methods that need no async version."""


@pytest.mark.parametrize(
    ("kind", "facade"),
    [
        (tenure.Jobs, tenure.AsyncJobs),
        (tenure.Claim, tenure.AsyncClaim),
        (tenure.Claims, tenure.AsyncClaims),
        (tenure.Table, tenure.AsyncTable),
        (tenure.TableClaim, tenure.AsyncTableClaim),
        (tenure.TableClaims, tenure.AsyncTableClaims),
    ],
)
def test_every_verb_has_its_twin_with_the_same_options(kind: type, facade: type) -> None:
    wanted = {name: verb for name, verb in verbs(kind).items() if name not in INTERNAL | REGISTERING}

    assert verbs(facade).keys() == wanted.keys()
    for name, verb in verbs(facade).items():
        assert options_of(verb) == options_of(wanted[name]), name
        assert verb.__doc__, name


def test_every_property_of_a_claim_has_its_twin() -> None:
    properties = {name for name, each in vars(tenure.Claim).items() if isinstance(each, property)} - {"aio"}

    assert {*properties, "job", "result", "sync"} <= vars(tenure.AsyncClaim).keys()


def test_a_jobs_has_one_twin_and_the_twin_leads_back() -> None:
    jobs = tenure.Jobs("memory://")
    ajobs = tenure.AsyncJobs("memory://", backoff=tenure.Backoff(first=1))

    assert jobs.aio is jobs.aio
    assert jobs.aio.sync is jobs
    assert ajobs.sync.aio is ajobs


def test_an_unknown_option_of_the_twin_is_refused() -> None:
    with pytest.raises(tenure.ConfigurationError, match="AsyncJobs has no option 'back_off'; did you mean 'backoff'"):
        tenure.AsyncJobs("memory://", back_off=None)  # type: ignore[call-arg]


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tenure' has no attribute 'AsyncQueue'"):
        tenure.AsyncQueue  # type: ignore[attr-defined]  # noqa: B018


def test_a_claim_made_elsewhere_is_extended_and_completed_by_its_awaited_block(ajobs: tenure.AsyncJobs) -> None:
    claim = claim_one(ajobs)

    held: list[bool] = []

    async def finish() -> None:
        async with await ajobs.attach(claim.id, fence=claim.fence, token=claim.token) as handle:
            held.append(not handle.is_lost)

    asyncio.run(finish())

    assert held == [True]
    assert state_of(ajobs, claim) == "completed"


def test_five_workers_on_one_loop_drain_ten_jobs_each_once(ajobs: tenure.AsyncJobs) -> None:
    done: list[int] = []

    async def worker() -> None:
        while claims := await ajobs.claim():
            for claim in claims:
                async with claim:
                    done.append(claim.job.payload["n"])
                    claim.result = claim.job.payload["n"]

    async def main() -> None:
        await ajobs.enqueue_many(tenure.NewJob("work", {"n": n}) for n in range(10))
        await asyncio.gather(*(worker() for _ in range(5)))

    asyncio.run(main())

    assert sorted(done) == list(range(10))
    assert sorted(job.result for job in ajobs.sync.find(state="completed")) == list(range(10))


def test_every_other_verb_is_answered(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> None:
        first, second = await ajobs.enqueue_many([tenure.NewJob("a"), tenure.NewJob("a")])
        await ajobs.pause("default")
        assert (await ajobs.stats()).paused == ("default",)
        await ajobs.resume("default")
        assert [each.id for each in await ajobs.cancel(each for each in [first])] == [first]
        assert [each.id for each in await ajobs.retry(state="cancelled")] == [first]
        await ajobs.cancel(all=True)
        assert [each.moved for each in await ajobs.delete([first])] == [True]
        assert await ajobs.get(first) is None
        assert await ajobs.purge(0) == 1
        assert await ajobs.get(second) is None
        assert await ajobs.reap() == []
        assert await ajobs.workers() == []
        assert await ajobs.explain(first) is None
        assert (await ajobs.migrate()).now >= 1
        assert [each.number for each in await ajobs.counts() if each.event == "enqueued"] == [2]

    asyncio.run(main())


ENDINGS: dict[str, tuple[Callable[[tenure.AsyncClaim], Any], str]] = {
    "complete": (lambda claim: claim.complete(7), "completed"),
    "fail": (lambda claim: claim.fail("why", final=True), "failed"),
    "retry": (lambda claim: claim.retry(delay=30), "queued"),
    "snooze": (lambda claim: claim.snooze(60), "queued"),
    "release": (lambda claim: claim.release(), "queued"),
    "cancel": (lambda claim: claim.cancel("why"), "cancelled"),
    "extend": (lambda claim: claim.extend(120), "running"),
    "progress": (lambda claim: claim.progress(3, of=10, note="x"), "running"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_claim_is_ended_and_prolonged(ajobs: tenure.AsyncJobs, name: str) -> None:
    act, state = ENDINGS[name]
    claim = claim_one(ajobs)
    asyncio.run(act(claim))

    assert state_of(ajobs, claim) == state
    assert claim.is_settled == (state != "running")


def test_a_claim_shows_what_it_is(ajobs: tenure.AsyncJobs) -> None:
    claim = claim_one(ajobs)
    claim.result = 7

    assert (claim.id, claim.fence, claim.token) == (claim.sync.id, 1, claim.sync.token)
    assert (claim.job, claim.result, claim.sync.result) == (claim.sync.job, 7, 7)
    assert (claim.is_lost, claim.is_settled, claim.cancel_requested) == (False, False, False)
    assert repr(claim).startswith("<AsyncClaim of job")


def test_a_misspelt_attribute_is_refused(ajobs: tenure.AsyncJobs) -> None:
    with pytest.raises(AttributeError):
        claim_one(ajobs).reslut = 7  # type: ignore[attr-defined]


def leave(claim: tenure.AsyncClaim, error: BaseException | None = None) -> None:
    async def main() -> None:
        async with claim:
            if error is not None:
                raise error

    asyncio.run(main())


def test_leaving_the_block_completes_the_job(ajobs: tenure.AsyncJobs) -> None:
    claim = claim_one(ajobs)
    leave(claim)

    assert state_of(ajobs, claim) == "completed"


def test_an_exception_is_recorded_and_goes_on(ajobs: tenure.AsyncJobs) -> None:
    claim = claim_one(ajobs)
    with pytest.raises(ValueError, match="no such address"):
        leave(claim, ValueError("no such address"))

    job = ajobs.sync.get(claim.id)
    assert job is not None
    assert "no such address" in job.errors[0]


@pytest.mark.parametrize("kind", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_an_interruption_releases_the_job(ajobs: tenure.AsyncJobs, kind: type[BaseException]) -> None:
    claim = claim_one(ajobs)
    with pytest.raises(kind):
        leave(claim, kind())

    job = ajobs.sync.get(claim.id)
    assert job is not None
    assert (job.state, job.attempts) == ("queued", 0)


def test_an_answer_ends_in_the_block(ajobs: tenure.AsyncJobs) -> None:
    claim = claim_one(ajobs)
    leave(claim, tenure.Fail("the file is empty"))

    assert state_of(ajobs, claim) == "failed"


def test_a_settled_claim_cannot_be_entered_or_ended_again(ajobs: tenure.AsyncJobs) -> None:
    claim = claim_one(ajobs)
    asyncio.run(claim.complete())

    with pytest.raises(tenure.ClaimLost, match="the job was completed before the block was entered"):
        leave(claim)
    with pytest.raises(tenure.ClaimLost, match="the job is already completed"):
        asyncio.run(claim.release())


def test_an_exception_is_recorded_on_the_claim_that_the_loop_is_at(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> None:
        await ajobs.enqueue_many(tenure.NewJob("a", {"n": n}) for n in range(3))
        async with await ajobs.claim(limit=3) as claims:
            for claim in claims:
                if claim.job.payload["n"] == 1:
                    raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(main())

    assert [len(job.errors) for job in ajobs.sync.find(newest_first=False)] == [0, 1, 0]
    assert ajobs.sync.stats().total("running") == 0


def test_nobody_is_blamed_for_an_exception_after_the_loop(ajobs: tenure.AsyncJobs) -> None:
    async def main() -> None:
        await ajobs.enqueue_many(tenure.NewJob("a") for _ in range(3))
        async with await ajobs.claim(limit=3) as claims:
            assert [claim.fence for claim in claims] == [1, 1, 1]
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(main())

    assert [job.errors for job in ajobs.sync.find()] == [[], [], []]


def test_leases_are_kept_while_the_loop_is_blocked(ajobs: tenure.AsyncJobs) -> None:
    """Slow: the loop is blocked for longer than a lease."""

    async def main() -> tuple[list[tenure.Claim], bool]:
        await ajobs.enqueue("work")
        async with await ajobs.claim(lease=5) as claims:
            # Blocks all coroutines for longer than the lease.
            threading.Event().wait(6)
            stolen = ajobs.sync.claim()
            return stolen, claims[0].is_lost

    assert asyncio.run(main()) == ([], False)


def test_find_reads_page_by_page(ajobs: tenure.AsyncJobs) -> None:
    ids = ajobs.sync.enqueue_many(tenure.NewJob("a") for _ in range(2_500))

    async def main() -> list[str]:
        return [job.id async for job in ajobs.find(newest_first=False)]

    assert asyncio.run(main()) == ids


def test_find_reads_no_page_before_it_is_wanted(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    ajobs.sync.enqueue_many(tenure.NewJob("a") for _ in range(2_500))

    async def main() -> str:
        jobs = ajobs.find()
        job = await anext(jobs)
        Gate(store, "find")
        await anext(jobs)
        return job.type

    assert asyncio.run(main()) == "a"


def test_a_wrong_condition_is_refused_before_anything_is_read(ajobs: tenure.AsyncJobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match="find has no option 'status'"):
        ajobs.find(status="queued")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda ajobs: ajobs.enqueue("a", prioritty=1), "did you mean 'priority'"),
        (lambda ajobs: ajobs.claim(queue="x"), "did you mean 'queues'"),
        (lambda ajobs: ajobs.claim(limit=0), "limit must be 1 to 1,000, not 0"),
        (lambda ajobs: ajobs.claim(wait=-1), "wait must be 0 to"),
        (lambda ajobs: ajobs.cancel(), "choose the jobs to cancel"),
        (lambda ajobs: ajobs.enqueue_many(7), "enqueue_many takes an iterable of NewJob, not 7"),
    ],
)
def test_errors_are_those_of_the_synchronous_twin(
    ajobs: tenure.AsyncJobs, act: Callable[[Any], Any], message: str
) -> None:
    async def main() -> None:
        await act(ajobs)

    with pytest.raises(tenure.ConfigurationError, match=message):
        asyncio.run(main())


def test_a_plain_with_names_the_remedy(ajobs: tenure.AsyncJobs) -> None:
    claim = claim_one(ajobs)

    for each in (claim, ajobs, asyncio.run(ajobs.claim())):
        with pytest.raises(TypeError, match=f"{type(each).__name__} is async: use `async with`"):
            each.__enter__()  # type: ignore[union-attr]


colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour")


class Listening(Memory):
    """A memory store that records the context variables of its caller."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[str, str | None] = {}

    def enqueue(self, records: Any) -> Any:
        self.heard["enqueue"] = colour.get(None)
        return super().enqueue(records)

    def claim(self, request: Any) -> Any:
        self.heard["claim"] = colour.get(None)
        return super().claim(request)


def test_context_variables_reach_the_store() -> None:
    store = Listening()

    async def main() -> None:
        async with tenure.AsyncJobs(store) as ajobs:
            colour.set("red")
            await ajobs.enqueue("a")
            await ajobs.claim()

    asyncio.run(main())

    assert store.heard == {"enqueue": "red", "claim": "red"}


def test_a_generator_is_read_in_the_callers_thread(ajobs: tenure.AsyncJobs) -> None:
    threads = set()

    def new_jobs() -> Iterator[tenure.NewJob]:
        threads.add(threading.current_thread())
        yield tenure.NewJob("a")

    asyncio.run(ajobs.enqueue_many(new_jobs()))

    assert threads == {threading.current_thread()}


def test_the_store_is_called_in_a_few_threads_of_our_own(ajobs: tenure.AsyncJobs, store: Memory) -> None:
    gate = Gate(store, "stats")
    before = len(our_threads())

    async def main() -> int:
        calls = [asyncio.create_task(ajobs.stats()) for _ in range(100)]
        await until(lambda: gate.is_reached)
        started = len(our_threads()) - before
        gate.open()
        await asyncio.gather(*calls)
        return started

    assert 1 <= asyncio.run(main()) <= OPERATION_THREADS
