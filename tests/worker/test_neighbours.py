"""Settlements that the store does not record at once: jobs that are locked, rows whose table rejects the outcome."""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

import pytest

import tenure
from tenure.backends.memory import Memory
from tenure.client.keeper import Keeper, ticks
from tenure.client.run import Run
from tenure.client.settling import BUSY_TIMEOUT
from tenure.core.operations import BUSY, Claimed, ClaimRequest, Extension, HoldStatus, Settled, Settlement, Unsettled
from tenure.core.transitions import build_rejection
from tenure.errors import ConfigurationError, StoreUnavailable
from tenure.testing.conformance.building import request
from tenure.worker.claimer import MAX_IDLE_WAIT, Claimer
from tenure.worker.deferred_settlements import BUSY_DELAY, MAX_BUSY_DELAY, REJECTED_DELAY
from tenure.worker.run_queue import RunQueue
from tenure.worker.store_retry import Request
from tenure.worker.work_source import RESPONSE_CHECK_INTERVAL, WorkSource
from tests.worker.looking import DEADLINE, job_of, until


class Locking(Memory):
    """A store in which a test locks jobs, as a transaction of another program does, or rejects their outcomes."""

    def __init__(self) -> None:
        super().__init__()
        self.locked: set[str] = set()
        self.rejections: dict[str, Unsettled] = {}
        self.locked_leases: set[str] = set()
        self.is_busy_once = False
        self.busy_count = 0
        self.rejected_count = 0
        self._seen: set[str] = set()
        self.extend_count = 0

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:  # type: ignore[override]
        return [self._settle_one(each) for each in settlements]

    def exchange(  # type: ignore[override]
        self, settlements: Sequence[Settlement], request: ClaimRequest
    ) -> tuple[list[Settled], Claimed]:
        return self.settle(settlements), self.claim(request)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        self.extend_count += 1
        statuses = super().extend(extensions)
        return [
            HoldStatus.BUSY
            if extension.hold.id in self.locked
            else HoldStatus.REJECTED
            if extension.hold.id in self.rejections
            else status
            for extension, status in zip(extensions, statuses, strict=True)
        ]

    def _settle_one(self, settlement: Settlement) -> Settled:
        id = settlement.hold.id
        is_first = self.is_busy_once and id not in self._seen
        self._seen.add(id)
        if id in self.locked or is_first:
            self.busy_count += 1
            return BUSY
        if (unsettled := self.rejections.get(id)) is not None:
            self.rejected_count += 1
            if unsettled.is_failed:
                super().settle([build_rejection(settlement, str(unsettled.rejection))])
            return unsettled
        return super().settle([settlement])[0]


class Ticks:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> Locking:
    return Locking()


@pytest.fixture
def jobs(store: Locking) -> tenure.Jobs:
    jobs = tenure.Jobs("memory://")
    jobs._open_store = lambda: store  # type: ignore[method-assign]
    return jobs


def logged_errors(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the id of the job and the text of each line at level ERROR."""
    return [
        (str(getattr(record, "job", "")), record.getMessage())
        for record in caplog.records
        if record.levelname == "ERROR"
    ]


def states(jobs: tenure.Jobs) -> dict[str, str]:
    return {job.id: job.state.value for job in jobs.find()}


def lease_end_of(jobs: tenure.Jobs, id: str) -> datetime:
    leased_until = job_of(jobs, id).leased_until
    assert leased_until is not None
    return leased_until


def test_a_locked_job_is_settled_when_the_lock_is_released_and_the_others_at_once(
    store: Locking, jobs: tenure.Jobs
) -> None:
    @jobs.task
    def work(n: int) -> int:
        return n

    ids = [work.using(id=f"job-{n}").enqueue(n) for n in range(5)]
    store.locked = {"job-2"}
    with jobs.worker(concurrency=2) as worker:
        until(lambda: list(states(jobs).values()).count("completed") == 4)
        until(lambda: store.busy_count > 3)
        while_locked = states(jobs)["job-2"]
        store.locked = set()
        until(lambda: states(jobs) == dict.fromkeys(ids, "completed"))

    assert while_locked == "running"
    assert (worker.summary.completed, worker.summary.lost, worker.summary.unrecorded) == (5, 0, 0)


def test_a_drain_ends_when_the_last_lock_is_released(store: Locking, jobs: tenure.Jobs) -> None:
    @jobs.task
    def work() -> None: ...

    work.using(id="job").enqueue()
    store.locked = {"job"}
    timer = threading.Timer(0.2, store.locked.clear)
    timer.start()

    summary = jobs.work(drain=True)

    assert summary.completed == 1


def test_a_worker_that_stops_while_a_job_is_locked_reports_the_job(
    store: Locking, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.claimer.FINAL_SETTLE_TIMEOUT", 0.2)

    @jobs.task
    def work() -> None: ...

    work.using(id="job").enqueue()
    store.locked = {"job"}
    with jobs.worker() as worker:
        until(lambda: store.busy_count > 0)

    assert worker.summary.unrecorded == 1
    assert "outcome of job job not recorded" in caplog.text


@pytest.mark.parametrize("is_failed", [True, False])
def test_a_rejected_outcome_is_logged_once_by_id_and_costs_the_others_nothing(
    store: Locking,
    jobs: tenure.Jobs,
    caplog: pytest.LogCaptureFixture,
    is_failed: bool,  # noqa: FBT001
) -> None:
    @jobs.task
    def work() -> None: ...

    for n in range(3):
        work.using(id=f"job-{n}").enqueue()
    store.rejections = {"job-1": Unsettled("violates a check", is_failed=is_failed)}

    summary = jobs.work(drain=True)

    assert summary.completed == 2
    assert (summary.failed, summary.unrecorded) == ((1, 0) if is_failed else (0, 1))
    assert states(jobs)["job-1"] == ("failed" if is_failed else "running")
    ((id, text),) = logged_errors(caplog)
    assert id == "job-1"
    assert "'job-1' rejected by its table: violates a check" in text


def test_an_outcome_is_kept_and_sent_again_while_the_statement_is_invalid(
    store: Locking, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    def work() -> None: ...

    for n in range(3):
        work.using(id=f"job-{n}").enqueue()
    store.rejections = {"job-1": Unsettled("no such table", may_retry=True)}
    with jobs.worker() as worker:
        until(lambda: states(jobs) == {"job-0": "completed", "job-1": "running", "job-2": "completed"})
        store.rejections = {}
        until(lambda: states(jobs)["job-1"] == "completed")

    assert (worker.summary.completed, worker.summary.unrecorded) == (3, 0)
    ((id, text),) = logged_errors(caplog)
    assert id == "job-1"
    assert "'job-1' rejected by its table: no such table; fix the table" in text


def define_completing(jobs: tenure.Jobs, runs: list[tenure.Claim], *, is_async: bool) -> None:
    """Define the task `work`: it completes its own run, and does not catch an error."""

    def work() -> None:
        runs.append(tenure.current())
        tenure.current().complete()

    async def work_async() -> None:
        runs.append(tenure.current())
        await tenure.current().aio.complete()

    jobs.task(type="work")(work_async if is_async else work)


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("unsettled", [BUSY, Unsettled("no such table", may_retry=True)], ids=["locked", "rejected"])
def test_an_outcome_that_the_handler_could_not_record_is_kept_and_sent_again(
    store: Locking,
    jobs: tenure.Jobs,
    monkeypatch: pytest.MonkeyPatch,
    unsettled: Unsettled,
    is_async: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr("tenure.client.settling.BUSY_TIMEOUT", 0.05)
    monkeypatch.setattr("tenure.worker.deferred_settlements.REJECTED_DELAY", 0.02)
    runs: list[tenure.Claim] = []
    define_completing(jobs, runs, is_async=is_async)
    jobs.enqueue("work", id="job")
    store.rejections = {"job": unsettled}
    with jobs.worker() as worker:
        until(lambda: worker._work_sources[0].deferred)
        while_unsettled = states(jobs)["job"]
        store.rejections = {}
        until(lambda: states(jobs)["job"] == "completed")

    assert while_unsettled == "running"
    assert len(runs) == 1
    assert (worker.summary.completed, worker.summary.lost, worker.summary.unrecorded) == (1, 0, 0)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_slot_is_free_when_the_handler_has_waited_for_the_lock_of_its_job(
    store: Locking,
    jobs: tenure.Jobs,
    monkeypatch: pytest.MonkeyPatch,
    is_async: bool,  # noqa: FBT001
) -> None:
    # The handler sends its settlement once.
    monkeypatch.setattr("tenure.client.settling.BUSY_TIMEOUT", 0.0)
    settle = store.settle
    threads: list[str] = []

    def record_thread(settlements: Sequence[Settlement]) -> list[Settled]:
        threads.append(threading.current_thread().name)
        return settle(settlements)

    monkeypatch.setattr(store, "settle", record_thread)
    define_completing(jobs, [], is_async=is_async)
    jobs.enqueue("work", id="job")
    store.locked = {"job"}
    with jobs.worker():
        until(lambda: store.busy_count > 3)
        store.locked = set()

    assert len([name for name in threads if name != "tenure-claimer"]) == 1


@pytest.mark.parametrize("is_async", [True, False])
def test_an_outcome_of_the_handler_that_the_table_rejects_for_good_is_logged_by_id_and_not_lost(
    store: Locking,
    jobs: tenure.Jobs,
    caplog: pytest.LogCaptureFixture,
    is_async: bool,  # noqa: FBT001
) -> None:
    define_completing(jobs, [], is_async=is_async)
    jobs.enqueue("work", id="job")
    store.rejections = {"job": Unsettled("violates a check")}

    summary = jobs.work(drain=True)

    assert (summary.unrecorded, summary.lost) == (1, 0)
    ((id, text),) = logged_errors(caplog)
    assert id == "job"
    assert "'job' rejected by its table: violates a check; the table also rejects the failure" in text


def test_rows_that_are_rejected_for_different_reasons_are_logged_once_each(
    store: Locking, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.deferred_settlements.REJECTED_DELAY", 0.02)

    @jobs.task
    def work() -> None: ...

    ids = [work.using(id=f"job-{n}").enqueue() for n in range(3)]
    store.rejections = {id: Unsettled(f"no right to complete {id}", may_retry=True) for id in ids}
    with jobs.worker():
        until(lambda: store.rejected_count >= 5 * len(ids))
        store.rejections = {}

    assert sorted(id for id, _ in logged_errors(caplog)) == ids


def test_rows_that_are_rejected_for_one_reason_are_all_logged_by_id_and_once(
    store: Locking, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.deferred_settlements.REJECTED_DELAY", 0.02)

    @jobs.task
    def work() -> None: ...

    ids = [f"job-{n}" for n in range(3)]
    store.rejections = {id: Unsettled("no such table", may_retry=True) for id in ids}
    with jobs.worker():
        for id in ids:
            work.using(id=id).enqueue()
        until(lambda: store.rejected_count >= 5 * len(ids))
        store.rejections = {}

    assert sorted(re.findall(r"'(job-\d)'", "".join(text for _, text in logged_errors(caplog)))) == ids


def test_rows_that_are_rejected_together_for_one_reason_are_logged_in_one_line(
    store: Locking, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_settling, may_settle = threading.Event(), threading.Event()
    settle = store.settle

    def hold_the_first(settlements: Sequence[Settlement]) -> list[Settled]:
        is_settling.set()
        may_settle.wait(DEADLINE)
        return settle(settlements)

    monkeypatch.setattr(store, "settle", hold_the_first)

    @jobs.task
    def first() -> None: ...

    @jobs.task
    def work() -> None:
        is_settling.wait(DEADLINE)

    first.enqueue()
    ids = [work.using(id=f"job-{n:02}").enqueue() for n in range(23)]
    store.rejections = {id: Unsettled("no such table", may_retry=True) for id in ids}
    with jobs.worker(concurrency=24) as worker:
        until(lambda: len(worker._work_sources[0].unsent) == len(ids))
        may_settle.set()
        until(lambda: store.rejected_count >= len(ids))
        store.rejections = {}

    ((id, text),) = logged_errors(caplog)
    assert id == ""
    assert {*ids} == {*re.findall(r"'(job-\d\d)'", text)}
    assert " rejected by their table: no such table; fix the table" in text


def test_a_settlement_by_hand_can_be_repeated_after_an_invalid_statement(store: Locking, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", {}, id="job")
    store.rejections = {"job": Unsettled("no such table", may_retry=True)}
    (claim,) = jobs.claim()

    with pytest.raises(ConfigurationError, match="no such table"):
        claim.complete()
    store.rejections = {}
    claim.complete()

    assert states(jobs) == {"job": "completed"}


def test_a_rejected_completion_by_hand_raises_and_the_claim_is_settled(store: Locking, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", {}, id="job")
    store.rejections = {"job": Unsettled("violates a check", is_failed=True)}
    (claim,) = jobs.claim()

    with pytest.raises(ConfigurationError, match="violates a check; the row failed"):
        claim.complete()

    assert claim.is_settled
    assert states(jobs) == {"job": "failed"}


def test_a_locked_job_is_waited_for_by_hand(store: Locking, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", {}, id="job")
    (claim,) = jobs.claim()
    store.locked = {"job"}
    timer = threading.Timer(0.2, store.locked.clear)
    timer.start()

    claim.extend()
    store.locked.add("job")
    threading.Timer(0.2, store.locked.clear).start()
    claim.complete()

    assert states(jobs) == {"job": "completed"}


def test_a_job_that_stays_locked_raises_and_can_be_settled_later(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.client.settling.BUSY_TIMEOUT", 0.05)
    monkeypatch.setattr("tenure.client.claim.BUSY_TIMEOUT", 0.05)
    jobs.enqueue("work", {}, id="job")
    (claim,) = jobs.claim()
    store.locked = {"job"}

    with pytest.raises(StoreUnavailable, match="another transaction has locked the job"):
        claim.complete()
    with pytest.raises(StoreUnavailable, match="another transaction has locked the job"):
        claim.extend()
    store.locked = set()
    claim.complete()

    assert states(jobs) == {"job": "completed"}


def test_a_rejected_extension_by_hand_raises_and_the_claim_is_held(store: Locking, jobs: tenure.Jobs) -> None:
    jobs.enqueue("work", {}, id="job")
    store.rejections = {"job": Unsettled("violates a check")}
    (claim,) = jobs.claim()

    with pytest.raises(ConfigurationError, match="not extended: its table rejects the write"):
        claim.extend()

    assert not claim.is_lost


def test_progress_inside_a_block_does_not_wait_for_a_locked_job(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.client.claim.BUSY_TIMEOUT", 1.0)
    jobs.enqueue("work", {}, id="job")
    (claim,) = jobs.claim()

    with claim:
        store.locked = {"job"}
        claim.progress(1, of=2)
        reported, extend_count = claim.lease.progress, store.extend_count
        store.locked = set()

    # The keeper thread may already have sent the progress again.
    assert extend_count in (1, 2)
    assert reported is not None
    assert (reported.done, reported.of) == (1, 2)
    assert not claim.is_lost


def test_an_extension_inside_a_block_raises_if_the_job_stays_locked(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.client.claim.BUSY_TIMEOUT", 0.05)
    jobs.enqueue("work", {}, id="job")
    (claim,) = jobs.claim()

    with claim:
        store.locked = {"job"}
        with pytest.raises(StoreUnavailable, match="lease of job 'job' not extended: another transaction has locked"):
            claim.extend(3600)
        store.locked = set()
        claim.extend(3600)
        left = claim.lease.valid_until - ticks()

    assert left > 60
    assert states(jobs) == {"job": "completed"}


def test_claims_that_stay_locked_at_the_end_of_a_block_are_logged(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tenure.client.settling.BUSY_TIMEOUT", 0.05)
    jobs.enqueue_many([tenure.NewJob("work", {}), tenure.NewJob("work", {})])

    with jobs.claim(limit=2) as claims:
        store.locked = {claims[0].id}

    assert [states(jobs)[claim.id] for claim in claims] == ["running", "queued"]
    assert f"outcome 'released' of job '{claims[0].id}' not recorded" in caplog.text


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, ["job"]), (BUSY_TIMEOUT, [])])
def test_a_claim_by_hand_goes_on_while_it_is_cut_but_not_for_ever(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: list[str]
) -> None:
    clock, claim, cut = Ticks(), store.claim, Claimed(jobs=[], is_cut=True)
    monkeypatch.setattr("tenure.client.source.ticks", clock)
    answers = iter([lambda _: cut, lambda _: cut, claim])

    def answer(request: ClaimRequest) -> Claimed:
        clock.now += seconds
        return next(answers)(request)

    jobs.enqueue("work", {}, id="job")
    monkeypatch.setattr(store, "claim", answer)
    claims = jobs.claim()

    assert [claim.id for claim in claims] == expected
    # The lease counts from before the last request.
    assert [claim.lease.sent_at for claim in claims] == [clock.now - seconds] * len(expected)


def make_unavailable_after_first_settle(store: Locking, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = store.settle

    def settle_once(settlements: Sequence[Settlement]) -> list[Settled]:
        monkeypatch.setattr(store, "settle", raise_unavailable)
        return settle(settlements)

    def raise_unavailable(_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "settle", settle_once)


def test_claims_recorded_before_the_store_became_unavailable_are_settled(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.enqueue_many([tenure.NewJob("work", {})] * 3)
    make_unavailable_after_first_settle(store, monkeypatch)

    with jobs.claim(limit=3) as claims:
        store.locked = {claims[0].id}

    assert [claim.is_settled for claim in claims] == [False, True, True]
    assert "settlements of locked jobs not sent again: away" in caplog.text
    assert [id for id, _ in logged_errors(caplog)] == [claims[0].id]


def test_an_unavailable_store_is_reported_if_no_settlement_was_recorded(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.enqueue("work", {}, id="job")
    (claim,) = jobs.claim()
    store.locked = {"job"}
    make_unavailable_after_first_settle(store, monkeypatch)

    with pytest.raises(StoreUnavailable, match="away"):
        claim.complete()

    assert not claim.is_settled


def test_jobs_that_are_busy_once_are_settled_while_others_keep_becoming_busy(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.deferred_settlements.BUSY_DELAY", 0.5)
    store.is_busy_once = True
    is_over = threading.Event()

    @jobs.task
    def work() -> None:
        if not is_over.is_set():
            work.enqueue()

    work.using(id="first").enqueue()
    with jobs.worker(concurrency=2):
        until(lambda: states(jobs)["first"] == "completed")
        is_over.set()

    assert store.busy_count > 3


def test_a_rejected_outcome_is_kept_after_its_lease_expired_and_recorded_if_no_other_worker_took_the_row(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.deferred_settlements.REJECTED_DELAY", 0.02)
    monkeypatch.setattr("tenure.worker.deferred_settlements.MAX_REJECTED_DELAY", 0.02)
    nothing = Claimed(jobs=[])
    runs: list[tenure.Claim] = []

    @jobs.task
    def work() -> None:
        runs.append(tenure.current())

    work.using(id="job").enqueue()
    store.rejections = {"job": Unsettled("no such table", may_retry=True)}
    with jobs.worker(lease=1) as worker:
        until(lambda: store.rejected_count > 0)
        # A claim would reap the expired lease: the table of a real row would reject this, too.
        monkeypatch.setattr(store, "claim", lambda _: nothing)
        until(lambda: runs[0].is_lost)
        before = store.rejected_count
        until(lambda: store.rejected_count > before)
        store.rejections = {}
        until(lambda: states(jobs) == {"job": "completed"})

    assert (worker.summary.completed, worker.summary.unrecorded) == (1, 0)


def test_a_locked_job_keeps_its_lease_until_it_is_settled(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Locking, "extend", Memory.extend)
    runs: list[int] = []

    @jobs.task
    def work() -> None:
        runs.append(1)

    work.using(id="job").enqueue()
    store.locked = {"job"}
    with jobs.worker(lease=1) as worker:
        until(lambda: store.busy_count > 0)
        claimed_until = lease_end_of(jobs, "job")
        until(lambda: lease_end_of(jobs, "job") > claimed_until + timedelta(seconds=1))
        store.locked = set()
        until(lambda: states(jobs)["job"] == "completed")

    assert len(runs) == 1
    assert worker.summary.lost == 0


def test_a_locked_job_that_may_not_start_beside_a_crashed_one_is_released_when_the_lock_is_released(
    store: Locking, jobs: tenure.Jobs
) -> None:
    @jobs.task
    def work() -> None: ...

    for n in range(2):
        work.using(id=f"job-{n}", max_crashes=2).enqueue()
    jobs.claim(limit=2, worker="dead")
    store.reap(worker="dead")
    store.locked = {"job-1"}

    with jobs.worker(concurrency=2):
        until(lambda: states(jobs)["job-0"] == "completed" and store.busy_count > 0)
        store.locked = set()
        until(lambda: states(jobs)["job-1"] == "completed")


def test_a_locked_job_is_not_settled_again_with_every_other_job(store: Locking, jobs: tenure.Jobs) -> None:
    @jobs.task
    def work(n: int) -> None:
        if n < 300:
            work.enqueue(n + 1)

    work.using(id="job").enqueue(300)
    work.enqueue(0)
    store.locked = {"job"}
    started_at = ticks()
    with jobs.worker(concurrency=1):
        until(lambda: list(states(jobs).values()).count("completed") >= 100)
        busy_count, elapsed = store.busy_count, ticks() - started_at
        store.locked = set()

    assert busy_count <= 10 + elapsed / MAX_BUSY_DELAY


def new_source(store: Memory | None = None) -> WorkSource:
    store = store or Memory()
    return WorkSource(
        index=0, store=store, endpoint=store, keeper=Keeper(store.extend), handlers={}, claim_request=request()
    )


def test_a_short_response_of_a_claim_that_was_cut_does_not_mean_that_there_are_no_jobs() -> None:
    source, claimed = new_source(), [Claimed(jobs=[], is_cut=is_cut) for is_cut in (False, True)]
    sent = Request(settlements=[], claim_request=request(), sent_at=ticks())

    may_have_jobs = []
    for each in claimed:
        source.build_runs(sent, request(), each, lambda lease: None)  # noqa: ARG005
        may_have_jobs.append(source.may_have_jobs)

    assert may_have_jobs == [False, True]


SETTLEMENT = cast("Settlement", object())


@dataclass(eq=False)
class Stub:
    """The attribute of a run that a source uses."""

    resend_delay: float = 0.0


def test_deferred_settlements_are_sent_again_behind_fresh_ones_and_that_of_a_locked_job_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, source = Ticks(), new_source()
    monkeypatch.setattr("tenure.worker.work_source.ticks", clock)
    locked, rejected, fresh = ((cast("Run", Stub()), SETTLEMENT) for _ in range(3))
    source.unconfirmed = [rejected, locked]
    source.defer({rejected[0]: Unsettled("no such table", may_retry=True), locked[0]: BUSY}, 0.0)
    source.unsent.append(fresh)

    clock.now += BUSY_DELAY
    source.resend_deferred(clock.now)
    soon = list(source.unsent)
    clock.now += REJECTED_DELAY
    source.resend_deferred(clock.now)

    assert soon == [fresh, locked]
    assert list(source.unsent) == [fresh, locked, rejected]


def test_a_source_claims_again_when_half_of_its_deferred_settlements_are_recorded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tenure.worker.work_source.LARGEST_BATCH", 4)
    monkeypatch.setattr("tenure.worker.work_source.unsettled_text", lambda *_: "locked")
    source, runs = new_source(), [cast("Run", Stub()) for _ in range(4)]

    paused = []
    for unsettled in (runs[:3], runs, runs[:3], runs, runs[:2], runs[:1], runs[:3]):
        source.deferred.take_all()
        source.unconfirmed = [(run, SETTLEMENT) for run in unsettled]
        source.defer(dict.fromkeys(unsettled, BUSY), 0.0)
        paused.append(source.is_claiming_paused)

    assert paused == [False, True, True, True, True, False, False]
    assert len(logged_errors(caplog)) == 1


def test_the_delay_of_a_deferred_settlement_counts_from_the_time_that_its_request_took(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, settle = Ticks(), store.settle
    monkeypatch.setattr("tenure.worker.store_retry.ticks", clock)

    def settle_slowly(settlements: Sequence[Settlement]) -> list[Settled]:
        clock.now += 100
        return settle(settlements)

    monkeypatch.setattr(store, "settle", settle_slowly)

    @jobs.task
    def work() -> None: ...

    work.using(id="job").enqueue()
    store.locked = {"job"}
    with jobs.worker() as worker:
        until(lambda: worker._work_sources[0].deferred)
        delay = worker._work_sources[0].deferred.due_at - ticks()
        store.locked = set()

    assert 100 < delay <= 500


class Away(Memory):
    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:  # noqa: ARG002
        raise StoreUnavailable("away")


def test_deferred_settlements_do_not_pile_up_in_a_request_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, source, run = Ticks(), new_source(Away()), cast("Run", Stub())
    monkeypatch.setattr("tenure.worker.work_source.ticks", clock)
    source.unconfirmed = [(run, SETTLEMENT)]
    source.defer({run: Unsettled("no such table", may_retry=True)}, 0.0)
    source.send(Request(settlements=[], claim_request=None, sent_at=clock.now))

    clock.now += REJECTED_DELAY
    source.resend_deferred(clock.now)

    assert not source.unsent


def test_a_deferred_settlement_does_not_wake_the_claimer_while_a_request_is_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tenure.worker.request_thread.RESPONSE_TIMEOUT", 0.0)
    store, run, may_answer = Memory(), cast("Run", Stub()), threading.Event()
    monkeypatch.setattr(store, "settle", lambda _: may_answer.wait(DEADLINE) and [])
    source, other = new_source(store), new_source()
    claimer = Claimer(
        name="worker",
        sources=[source, other],
        run_queue=RunQueue(1, lambda _: None),
        arm_poller=lambda _: None,
        interrupt=lambda _run, _reason: None,
        grace=0,
        drain=False,
        is_closed=lambda: False,
    )
    source.unconfirmed = [(run, SETTLEMENT)]
    source.defer({run: BUSY}, 0.0)
    source.send(Request(settlements=[], claim_request=None, sent_at=ticks()))

    delay = claimer._shortest_retry_delay(source.deferred.due_at + 1)
    may_answer.set()
    source.close()

    assert delay == min(RESPONSE_CHECK_INTERVAL, MAX_IDLE_WAIT)


def test_a_worker_with_many_rejected_outcomes_claims_no_more_until_some_are_recorded(
    store: Locking, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.work_source.LARGEST_BATCH", 3)
    monkeypatch.setattr("tenure.worker.deferred_settlements.REJECTED_DELAY", 0.02)
    monkeypatch.setattr("tenure.worker.deferred_settlements.MAX_REJECTED_DELAY", 0.02)
    monkeypatch.setattr("tenure.worker.deferred_settlements.RESEND_PAUSE", 0.0)

    @jobs.task
    def work() -> None: ...

    def warnings() -> list[str]:
        return [text for _, text in logged_errors(caplog) if "claims no more" in text]

    ids = [work.using(id=f"job-{n:02}").enqueue() for n in range(20)]
    store.rejections = {id: Unsettled("no such table", may_retry=True) for id in ids}
    with jobs.worker(concurrency=1):
        until(warnings)
        until(lambda: store.rejected_count >= 100)
        while_rejected = list(states(jobs).values())
        store.rejections = {}
        until(lambda: set(states(jobs).values()) == {"completed"})

    assert 3 <= while_rejected.count("running") < 20
    (text,) = warnings()
    assert f"{work.type!r}: 3 outcomes are not recorded; the last one: outcome 'completed' of row 'job-" in text
    assert "no such table; fix the table" in text


def test_a_worker_with_many_locked_jobs_claims_no_more_until_a_lock_is_released(
    store: Locking, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.work_source.LARGEST_BATCH", 3)

    @jobs.task
    def work() -> None: ...

    ids = [work.using(id=f"job-{n:02}").enqueue() for n in range(20)]
    store.locked = {*ids}
    with jobs.worker(concurrency=1):
        until(lambda: store.busy_count >= 30)
        while_locked = list(states(jobs).values())
        store.locked = set()
        until(lambda: set(states(jobs).values()) == {"completed"})

    assert 3 <= while_locked.count("running") < 20
    ((_, text),) = logged_errors(caplog)
    assert "another transaction has locked the job, or its table is slow; end that transaction" in text


def test_a_drain_with_many_rejected_outcomes_ends_when_all_jobs_are_done(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.work_source.LARGEST_BATCH", 3)
    monkeypatch.setattr("tenure.worker.deferred_settlements.REJECTED_DELAY", 0.02)

    @jobs.task
    def work() -> None: ...

    ids = [work.enqueue() for _ in range(20)]
    store.rejections = {id: Unsettled("no such table", may_retry=True) for id in ids}
    timer = threading.Timer(0.2, store.rejections.clear)
    timer.start()

    summary = jobs.work(drain=True, concurrency=1)

    assert summary.completed == 20


def test_a_worker_that_stops_sends_a_rejected_outcome_once_more_whenever_it_is_due(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.deferred_settlements.REJECTED_DELAY", 3_600.0)
    monkeypatch.setattr("tenure.worker.deferred_settlements.MAX_REJECTED_DELAY", 3_600.0)

    @jobs.task
    def work() -> None: ...

    id = work.enqueue()
    store.rejections = {id: Unsettled("no such table", may_retry=True)}
    with jobs.worker() as worker:
        until(lambda: worker._work_sources[0].deferred)
        store.rejections = {}

    assert worker.summary.completed == 1


def test_a_worker_that_stops_sends_all_rejected_outcomes_once_more_before_it_pauses(
    store: Locking, jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.deferred_settlements.REJECTED_DELAY", 3_600.0)
    monkeypatch.setattr("tenure.worker.deferred_settlements.MAX_REJECTED_DELAY", 3_600.0)
    monkeypatch.setattr("tenure.worker.claimer.FINAL_SETTLE_TIMEOUT", 0.2)

    @jobs.task
    def work() -> None: ...

    ids = [work.enqueue() for _ in range(100)]
    store.rejections = {id: Unsettled("no such table", may_retry=True) for id in ids}
    with jobs.worker() as worker:
        until(lambda: len(worker._work_sources[0].deferred) == len(ids))
        # The last outcome can be recorded.
        last = worker._work_sources[0].deferred.runs[-1].id
        del store.rejections[last]

    assert (states(jobs)[last], worker.summary.unrecorded) == ("completed", len(ids) - 1)


def test_a_worker_that_stops_reports_all_rejected_outcomes(
    store: Locking, jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.worker.claimer.FINAL_SETTLE_TIMEOUT", 0.2)

    @jobs.task
    def work() -> None: ...

    ids = [work.enqueue() for _ in range(100)]
    store.rejections = {id: Unsettled("no such table", may_retry=True) for id in ids}
    with jobs.worker() as worker:
        until(lambda: len(worker._work_sources[0].deferred) == len(ids))

    assert worker.summary.unrecorded == len(ids)
    assert all(f"outcome of job {id} not recorded" in caplog.text for id in ids)
