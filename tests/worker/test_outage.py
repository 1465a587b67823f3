"""A store that becomes unavailable, and available again."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import pytest

import tenure
from tenure.backends.memory import Memory
from tenure.backends.shared.isolation import StatementRejected
from tenure.client.keeper import ticks
from tenure.core.operations import Claimed, ClaimRequest, Extension, HoldStatus, Settlement
from tenure.errors import StoreUnavailable
from tenure.testing.conformance.building import request
from tenure.worker.store_retry import Request, RetryingStore
from tests.tiers import only_in_all
from tests.worker.looking import DEADLINE, job_of, until

T = TypeVar("T")


class Unreliable(Memory):
    """A store that a test can make unavailable; with `loses_answers`, requests arrive and only responses are lost."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cut = False
        self.loses_answers = False
        self.cut_claims = 0
        self.tries = 0
        self.may_extend = threading.Event()
        self.may_extend.set()

    def claim(self, request: ClaimRequest) -> Claimed:
        self.cut_claims += self.is_cut
        return self._reach(lambda: super(Unreliable, self).claim(request))

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return self._reach(lambda: super(Unreliable, self).settle(settlements))

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        self.may_extend.wait(DEADLINE)
        return self._reach(lambda: super(Unreliable, self).extend(extensions))

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        return self._reach(lambda: super(Unreliable, self).exchange(settlements, request))

    def _reach(self, ask: Callable[[], T]) -> T:
        if not self.is_cut:
            return ask()
        self.tries += 1
        if self.loses_answers:
            ask()
        raise StoreUnavailable("the line is cut")


@pytest.fixture
def store() -> Unreliable:
    return Unreliable()


@pytest.fixture
def jobs(store: Unreliable) -> tenure.Jobs:
    return tenure.Jobs(store)


def has_run_out(jobs: tenure.Jobs, id: str) -> bool:
    """Return whether the lease of the job has expired by the store's clock."""
    leased_until = job_of(jobs, id).leased_until
    return leased_until is not None and leased_until < datetime.now(UTC)


def test_a_worker_goes_on_when_the_store_is_back_and_has_said_so_once(
    jobs: tenure.Jobs, store: Unreliable, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    def work() -> str:
        return "done"

    with jobs.worker():
        work.result(work.enqueue(), timeout=DEADLINE)
        store.is_cut = True
        id = work.enqueue()
        until(lambda: store.tries >= 4)
        store.is_cut = False
        assert work.result(id, timeout=DEADLINE) == "done"

    texts = [record.message for record in caplog.records if record.message.startswith("store ")]
    assert len(texts) == 2
    assert texts[0] == "store unavailable, retrying: the line is cut"
    assert texts[1].startswith("store available again after")


class Rejecting(Memory):
    """A store that rejects claims with `error`, if set."""

    error: tenure.TenureError | None = None

    def claim(self, request: ClaimRequest) -> Claimed:
        if self.error is not None:
            raise self.error
        return super().claim(request)


def rejection(reason: str) -> StatementRejected:
    return StatementRejected(f"a statement on table 'orders' failed: {reason}", reason=reason)


def test_claims_that_the_database_rejects_are_logged_once_for_each_reason_and_are_no_outage(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1_000.0
    monkeypatch.setattr("tenure.worker.store_retry.ticks", lambda: now)
    store = Rejecting()
    source, claim = RetryingStore(store), Request(settlements=[], claim_request=request(), sent_at=now)

    was_failing: list[bool] = []
    for reason, later in (("no x", 0), ("no x", 60), ("no y", 60), ("no y", 599), ("no y", 1)):
        now += later
        for store.error in (rejection(reason), None):
            source.send(claim)
            was_failing.append(source.is_failing)

    assert not any(was_failing)
    assert [(record.levelname, record.getMessage(), record.exc_info) for record in caplog.records] == [
        ("ERROR", f"claims rejected, retrying: a statement on table 'orders' failed: no {name}", None) for name in "xyy"
    ]


def test_a_claim_that_the_database_rejects_ends_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    store = Rejecting()
    source, claim = RetryingStore(store), Request(settlements=[], claim_request=request(), sent_at=ticks())

    for store.error in (StoreUnavailable("away"), rejection("no x"), rejection("no x")):
        source.send(claim)

    assert not source.is_failing
    assert [text.split(" after ")[0].split(":")[0] for text in caplog.messages] == [
        "store unavailable, retrying",
        "store available again",
        "claims rejected, retrying",
    ]


def test_what_ended_while_the_store_was_away_is_settled_when_it_is_back(jobs: tenure.Jobs, store: Unreliable) -> None:
    begun, may_end = threading.Event(), threading.Event()
    runs: list[int] = []

    @jobs.task
    def work() -> str:
        runs.append(1)
        begun.set()
        may_end.wait(DEADLINE)
        return "done"

    id = work.enqueue()
    with jobs.worker():
        assert begun.wait(DEADLINE)
        store.is_cut = True
        may_end.set()
        until(lambda: store.tries >= 3)
        store.is_cut = False
        assert work.result(id, timeout=DEADLINE) == "done"

    assert runs == [1]


def test_what_ended_in_an_outage_longer_than_its_lease_is_settled_before_a_claim_takes_it_back(
    jobs: tenure.Jobs, store: Unreliable
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    runs: list[int] = []

    @jobs.task
    def work() -> str:
        runs.append(1)
        begun.set()
        may_end.wait(DEADLINE)
        return "done"

    id = work.enqueue()
    with jobs.worker(lease=2):
        assert begun.wait(DEADLINE)
        store.is_cut = True
        until(lambda: store.cut_claims >= 1)
        may_end.set()
        until(lambda: has_run_out(jobs, id))
        store.is_cut = False
        assert work.result(id, timeout=DEADLINE) == "done"

    job = jobs.get(id)
    assert job is not None
    assert (runs, job.crashes, job.history) == ([1], 0, ())


def test_a_claim_whose_answer_was_lost_is_asked_for_again_under_the_same_token(
    jobs: tenure.Jobs, store: Unreliable
) -> None:
    @jobs.task
    def work() -> str:
        return "done"

    with jobs.worker():
        store.is_cut = store.loses_answers = True
        id = work.enqueue()
        until(lambda: store.tries >= 3)
        store.is_cut = False
        assert work.result(id, timeout=DEADLINE) == "done"

    job = jobs.get(id)
    assert job is not None
    assert (job.attempts, job.fence, job.history) == (1, 1, ())


def test_jobs_whose_claim_is_answered_after_their_lease_are_given_back_and_not_run(
    jobs: tenure.Jobs, store: Unreliable
) -> None:
    fences: list[int] = []

    @jobs.task
    def work() -> str:
        fences.append(tenure.current().fence)
        return "done"

    with jobs.worker(lease=2):
        store.is_cut = store.loses_answers = True
        id = work.enqueue()
        until(lambda: store.tries >= 1)
        until(lambda: has_run_out(jobs, id))
        store.is_cut = False
        assert work.result(id, timeout=DEADLINE) == "done"

    assert fences == [2]


def test_a_lease_that_could_not_be_kept_stops_its_handler(jobs: tenure.Jobs, store: Unreliable) -> None:
    told = threading.Event()

    @jobs.task
    def work() -> None:
        if tenure.current().fence == 1:
            until(lambda: tenure.current().is_lost)
            told.set()

    work.enqueue()
    with jobs.worker(lease=1):
        until(lambda: jobs.stats().total("running") == 1)
        store.is_cut = True
        assert told.wait(DEADLINE)
        store.is_cut = False


def test_a_worker_that_ends_while_the_store_is_away_does_not_wait_for_ever(
    jobs: tenure.Jobs, store: Unreliable, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.claimer.FINAL_SETTLE_TIMEOUT", 0.1)
    begun, may_end = threading.Event(), threading.Event()

    @jobs.task
    def work() -> None:
        begun.set()
        may_end.wait(DEADLINE)

    work.enqueue()
    with jobs.worker() as worker:
        assert begun.wait(DEADLINE)
        store.is_cut = True
        may_end.set()

    assert worker.summary.unrecorded == 1
    assert "job outcomes not recorded: 1" in caplog.text


def test_a_store_that_fails_in_an_unknown_way_does_not_end_the_worker(
    jobs: tenure.Jobs, store: Unreliable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    def work() -> str:
        return "done"

    def fail(*_: object) -> Claimed:
        store.tries += 1
        raise RuntimeError("a mistake")

    with jobs.worker():
        with monkeypatch.context() as patch:
            patch.setattr(store, "claim", fail)
            id = work.enqueue()
            until(lambda: store.tries >= 2)
        assert work.result(id, timeout=DEADLINE) == "done"

    assert caplog.text.count("claim or settle failed, retrying") == 1
    assert "a mistake" in caplog.text


def test_a_handler_is_told_of_its_loss_though_the_store_holds_up_the_keeper(
    jobs: tenure.Jobs, store: Unreliable
) -> None:
    cancelled = threading.Event()

    @jobs.task
    async def work() -> None:
        if tenure.current().fence > 1:
            return
        try:
            await asyncio.sleep(DEADLINE)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    work.enqueue()
    with jobs.worker(lease=1):
        until(lambda: jobs.stats().total("running") == 1)
        store.may_extend.clear()
        assert cancelled.wait(DEADLINE)
        assert not store.may_extend.is_set()
        store.may_extend.set()


@only_in_all
def test_many_jobs_whose_claim_is_answered_late_are_given_back_and_none_is_taken_for_crashed(
    jobs: tenure.Jobs, store: Unreliable
) -> None:
    """Slow: a response arrives after the lease has expired."""

    @jobs.task
    def work() -> None: ...

    with jobs.worker(lease=3, concurrency=100) as worker:
        store.is_cut = store.loses_answers = True
        ids = jobs.enqueue_many(work.job() for _ in range(100))
        until(lambda: jobs.stats().total("running") == 100)
        until(lambda: all(has_run_out(jobs, id) for id in ids))
        store.is_cut = False
        until(lambda: worker.summary.completed == 100)

    found = [jobs.get(id) for id in ids]
    assert {(job.crashes, job.attempts) for job in found if job is not None} == {(0, 1)}


def test_a_worker_that_breaks_gives_back_what_it_holds_and_says_why(
    jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    @jobs.task
    def work() -> None: ...

    id = work.enqueue()
    monkeypatch.setattr("tenure.worker.thread_executor.ThreadExecutor.submit", fail)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        jobs.work(drain=True)

    job = jobs.get(id)
    assert job is not None
    assert (job.state, job.attempts) == ("queued", 0)
