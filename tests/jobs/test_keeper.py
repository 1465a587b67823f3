"""The keeper, with a clock that the tests advance."""

import logging
import os
import signal
import threading
import time
from collections.abc import Sequence

import pytest

import tenure
from tenure.backends.memory import Memory
from tenure.client.keeper import BLOCKED, CLOCK_DRIFT_MARGIN, PROGRESS_INTERVAL, Keeper, Lease, ticks
from tenure.core.job import Progress
from tenure.core.operations import Extension, Hold, HoldStatus
from tenure.errors import StoreUnavailable
from tests.jobs.gates import PATIENCE


class Recorder:
    """A fake store with preset responses."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.requests: list[list[Extension]] = []
        self.answer: HoldStatus | Exception = HoldStatus.HELD
        self.answers_by_id: dict[str, HoldStatus] = {}

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        self.requests.append(list(extensions))
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answers_by_id.get(each.hold.id, self.answer) for each in extensions]

    def ticks(self) -> float:
        return self.now


class Still(Keeper):
    """A keeper whose thread never starts; the tests call `beat`."""

    def _run(self) -> None: ...


@pytest.fixture
def store() -> Recorder:
    return Recorder()


@pytest.fixture
def keeper(store: Recorder) -> Keeper:
    return Still(store.extend, store.ticks)


def lease_of(store: Recorder, length: float = 60.0, id: str = "a") -> Lease:
    return Lease(Hold(id=id, fence=1, token="t"), length, store.now, ticks=store.ticks)


def test_a_lease_is_extended_after_a_third_of_it(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    keeper.extend_due()
    store.now += 19
    keeper.extend_due()
    before = len(store.requests)
    store.now += 1
    keeper.extend_due()

    assert before == 0
    assert store.requests == [[Extension(hold=lease.hold, lease=60.0)]]


def test_a_lease_that_is_extended_in_time_is_never_lost(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    for _ in range(50):
        store.now += 20
        keeper.extend_due()

    assert not lease.is_lost
    assert len(store.requests) == 50


def test_leases_that_are_nearly_due_are_extended_together(store: Recorder, keeper: Keeper) -> None:
    leases = []
    for number in range(5):
        leases.append(lease_of(store, id=str(number)))
        store.now += 1
    keeper.keep(leases)
    store.now += 16
    keeper.extend_due()

    assert [len(request) for request in store.requests] == [5]


def test_a_lease_that_is_not_nearly_due_is_left_alone(store: Recorder, keeper: Keeper) -> None:
    short, long = lease_of(store, 3), lease_of(store, 600)
    keeper.keep([short, long])
    store.now += 1
    keeper.extend_due()

    assert [[each.hold for each in request] for request in store.requests] == [[short.hold]]


def test_very_many_leases_are_extended_by_the_thousand(store: Recorder, keeper: Keeper) -> None:
    keeper.keep([lease_of(store, id=str(number)) for number in range(2_500)])
    store.now += 20
    keeper.extend_due()

    assert [len(request) for request in store.requests] == [1_000, 1_000, 500]


def test_a_lease_is_counted_from_before_the_request_was_sent(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    sent_at = store.now
    keeper.keep([lease])

    store.now = sent_at + 60 * (1 - CLOCK_DRIFT_MARGIN) - 0.001
    before = lease.is_lost
    store.now = sent_at + 60 * (1 - CLOCK_DRIFT_MARGIN)

    assert (before, lease.is_lost) == (False, True)


def test_a_slow_answer_does_not_prolong_the_lease(store: Recorder) -> None:
    def slow(extensions: Sequence[Extension]) -> list[HoldStatus]:
        store.now += 30
        return store.extend(extensions)

    keeper = Still(slow, store.ticks)
    lease = lease_of(store)
    keeper.keep([lease])
    store.now += 20
    sent_at = store.now
    keeper.extend_due()

    assert lease.valid_until == sent_at + 60 * (1 - CLOCK_DRIFT_MARGIN)


def test_a_lease_is_lost_before_the_store_would_give_the_job_away(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    given_away_at = store.now + 60
    keeper.keep([lease])
    store.answer = StoreUnavailable("gone")
    while not lease.is_lost:
        store.now += 1
        keeper.extend_due()

    assert store.now < given_away_at


def test_while_the_store_is_away_it_is_tried_again_and_said_once(
    store: Recorder, keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = StoreUnavailable("gone")
    for _ in range(5):
        store.now += 6
        keeper.extend_due()
    store.answer = HoldStatus.HELD
    store.now += 3
    keeper.extend_due()

    assert len(store.requests) == 3
    assert not lease.is_lost
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_an_unexpected_error_does_not_end_the_keeping(
    store: Recorder, keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = RuntimeError("a bug")
    store.now += 20
    keeper.extend_due()
    store.answer = HoldStatus.HELD
    store.now += 20
    keeper.extend_due()

    assert not lease.is_lost
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_lease_that_the_store_refuses_is_lost_and_left_alone(
    store: Recorder, keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    lease = lease_of(store, id="j7")
    keeper.keep([lease])
    store.answer = HoldStatus.LOST
    store.now += 20
    keeper.extend_due()
    store.now += 20
    keeper.extend_due()

    assert lease.is_lost
    assert len(store.requests) == 1
    assert [(vars(record)["job"], vars(record)["fence"]) for record in caplog.records] == [("j7", 1)]


def test_a_claim_that_ended_while_it_was_extended_has_lost_nothing(
    store: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    lease = lease_of(store)

    def extend(extensions: Sequence[Extension]) -> list[HoldStatus]:
        ending.end(lease)
        return [HoldStatus.LOST] * len(extensions)

    ending = Still(extend, store.ticks)
    ending.keep([lease])
    store.now += 20
    ending.extend_due()

    assert caplog.messages == []


def test_a_store_that_answers_too_little_does_not_end_the_keeping(
    store: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Still(lambda _: [], store.ticks)
    keeper.keep([lease_of(store)])
    store.now += 20
    keeper.extend_due()

    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_lease_is_kept_until_it_is_dropped_as_often_as_it_was_kept(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    keeper.keep([lease])
    keeper.drop([lease])
    store.now += 20
    keeper.extend_due()

    assert len(store.requests) == 1


def test_a_thread_that_could_not_be_started_is_tried_again(store: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(store.extend)
    lease = Lease(Hold(id="a", fence=1, token="t"), 60, ticks())
    with monkeypatch.context() as broken:
        broken.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no more threads")))
        with pytest.raises(RuntimeError):
            keeper.keep([lease])
    keeper.keep([lease])
    thread = keeper._thread
    keeper.stop()

    assert thread is not None


def test_stopping_does_not_wait_for_a_thread_that_looks_the_other_way() -> None:
    keeper = Keeper(Memory().extend)
    lease = Lease(Hold(id="a", fence=1, token="t"), 60, ticks())
    for _ in range(200):
        keeper.keep([lease])
        keeper.stop()
        keeper._is_stopped = False

    assert keeper._thread is None


def test_a_lease_that_ran_out_is_not_extended_any_more(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.now += 60
    keeper.extend_due()

    assert store.requests == []
    assert lease.is_lost


def test_a_cancel_that_was_asked_for_is_passed_on_and_the_lease_kept(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = HoldStatus.CANCEL_REQUESTED
    store.now += 20
    keeper.extend_due()
    store.answer = HoldStatus.HELD
    store.now += 20
    keeper.extend_due()

    assert lease.cancel_requested
    assert not lease.is_lost


def test_a_dropped_lease_runs_out_by_itself(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    keeper.drop([lease])
    store.now += 20
    keeper.extend_due()

    assert store.requests == []


def test_a_longer_lease_by_hand_is_not_shortened_by_the_keeper(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    lease.record_extension(HoldStatus.HELD, store.now, 600)
    store.now += 100
    keeper.extend_due()
    store.answer = StoreUnavailable("gone")
    store.now += 400
    keeper.extend_due()

    assert not lease.is_lost
    assert store.requests[0][0].lease == 60.0


def test_the_thread_keeps_leases_by_itself_while_the_work_blocks() -> None:
    """Slow: the handler blocks for longer than a lease."""
    jobs = tenure.Jobs("memory://")
    jobs.enqueue("work")

    with jobs.claim(lease=5) as (claim,), claim:
        ends_at = time.monotonic() + 6
        while time.monotonic() < ends_at:
            pass
        stolen = jobs.claim()
        is_lost = claim.is_lost

    assert (stolen, is_lost) == ([], False)
    assert jobs.stats().total("completed") == 1


def test_one_thread_keeps_all_leases_and_ends_with_close() -> None:
    before = set(threading.enumerate())
    jobs = tenure.Jobs("memory://")
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(3))
    for claims in (jobs.claim(limit=2), jobs.claim()):
        claims.__enter__()
    started = set(threading.enumerate()) - before
    jobs.close()

    assert [thread.name for thread in started] == ["tenure-keeper"]
    assert not any(thread.is_alive() for thread in started)


def test_without_a_block_no_thread_is_started() -> None:
    before = threading.active_count()
    jobs = tenure.Jobs("memory://")
    jobs.enqueue("work")
    jobs.claim()[0].complete()

    assert threading.active_count() == before


def test_the_thread_ends_when_nothing_was_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.client.keeper.IDLE_THREAD_TTL", 0.01)
    store = Memory()
    keeper = Keeper(store.extend)
    lease = Lease(Hold(id="a", fence=1, token="t"), 60, ticks())
    keeper.keep([lease])
    thread = keeper._thread
    keeper.drop([lease])
    keeper._wake.set()

    assert thread is not None
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_sooner_lease_wakes_the_thread() -> None:
    extended = threading.Event()

    def extend(extensions: Sequence[Extension]) -> list[HoldStatus]:
        if any(each.hold.id == "short" for each in extensions):
            extended.set()
        return [HoldStatus.HELD] * len(extensions)

    keeper = Keeper(extend)
    keeper.keep([Lease(Hold(id="long", fence=1, token="t"), 86_400, ticks())])
    threading.Event().wait(0.05)
    keeper.keep([Lease(Hold(id="short", fence=1, token="t"), 6, ticks())])

    assert extended.wait(PATIENCE)
    keeper.stop()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_keeps_nothing_of_its_parents() -> None:
    keeper = Keeper(Memory().extend)
    keeper.keep([Lease(Hold(id="a", fence=1, token="t"), 60, ticks())])
    with keeper._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE))
            keeper.drop([])
            os._exit(7 if not keeper._kept else 1)
    _, status = os.waitpid(child, 0)
    keeper.stop()

    assert os.waitstatus_to_exitcode(status) == 7


def test_progress_is_sent_soon_and_of_several_reports_the_latest(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    for done in range(3):
        keeper.report(lease, tenure.Progress(done=done))
    store.now += PROGRESS_INTERVAL
    keeper.extend_due()
    store.now += PROGRESS_INTERVAL
    keeper.extend_due()

    assert [each.progress for request in store.requests for each in request] == [tenure.Progress(done=2)]


def test_progress_that_could_not_be_sent_is_sent_again(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    keeper.report(lease, tenure.Progress(done=1))
    store.answer = StoreUnavailable("away")
    store.now += PROGRESS_INTERVAL
    keeper.extend_due()
    store.answer = HoldStatus.HELD
    store.now += 5
    keeper.extend_due()

    assert [request[0].progress for request in store.requests] == [tenure.Progress(done=1)] * 2


def test_bad_news_are_told_once(store: Recorder, keeper: Keeper) -> None:
    told: list[Lease] = []
    asked, lost, late = lease_of(store, id="asked"), lease_of(store, id="lost"), lease_of(store, id="late")
    for lease in (asked, lost, late):
        lease.on_lost_or_cancelled = told.append

    keeper.keep([asked])
    store.answer = HoldStatus.CANCEL_REQUESTED
    for _ in range(2):
        store.now += 20
        keeper.extend_due()
    keeper.end(asked)
    keeper.keep([lost])
    store.answer = HoldStatus.LOST
    lost.record_extension(HoldStatus.HELD, store.now, 60.0)
    store.now += 20
    keeper.extend_due()
    keeper.keep([late])
    store.now += 100
    keeper.extend_due()

    assert told == [asked, lost, late]


@pytest.mark.parametrize("blocked", [HoldStatus.BUSY, HoldStatus.REJECTED])
def test_a_lease_that_cannot_be_extended_costs_only_itself(
    store: Recorder, keeper: Keeper, blocked: HoldStatus, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = lease_of(store, id="bad"), lease_of(store, id="good")
    store.answers_by_id = {"bad": blocked}
    keeper.keep([bad, good])
    for _ in range(20):
        store.now += 3
        keeper.extend_due()

    assert bad.is_lost
    assert not good.is_lost
    warnings = [record.getMessage() for record in caplog.records]
    # The store reports a rejected write itself.
    expected = ["lease of job bad not extended"] if blocked is HoldStatus.BUSY else []
    assert [text.split(":")[0] for text in warnings] == [*expected, "claim of job bad lost"]
    assert all(BLOCKED[blocked] in text for text in warnings)


def test_a_blocked_lease_is_extended_as_soon_as_the_lock_is_released(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = HoldStatus.BUSY
    for _ in range(10):
        store.now += 5
        keeper.extend_due()
    store.answer = HoldStatus.HELD
    store.now += 3
    keeper.extend_due()

    assert not lease.is_blocked
    assert lease.valid_until == store.now + 60 * (1 - CLOCK_DRIFT_MARGIN)


def test_progress_of_a_blocked_lease_is_kept_until_it_can_be_stored(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = HoldStatus.BUSY
    keeper.report(lease, Progress(done=1))
    store.now += PROGRESS_INTERVAL
    keeper.extend_due()
    store.answer = HoldStatus.HELD
    store.now += 3
    keeper.extend_due()

    assert [request[0].progress for request in store.requests] == [Progress(done=1), Progress(done=1)]
    assert lease.progress is None


def test_progress_of_a_blocked_lease_is_sent_no_more_often_than_the_extension(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = HoldStatus.BUSY
    for done in range(31):
        keeper.report(lease, Progress(done=done))
        store.now += PROGRESS_INTERVAL
        keeper.extend_due()

    assert [request[0].progress for request in store.requests] == [Progress(done=done) for done in (0, 15, 30)]


def test_a_lease_is_extended_without_a_progress_that_the_table_rejects(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = HoldStatus.REJECTED
    keeper.report(lease, Progress(done=1))
    store.now += PROGRESS_INTERVAL
    keeper.extend_due()
    store.answer = HoldStatus.HELD
    keeper.extend_due()
    store.now += PROGRESS_INTERVAL
    keeper.extend_due()

    assert [request[0].progress for request in store.requests] == [Progress(done=1), None]
    assert not lease.is_blocked


def test_progress_is_sent_no_more_often_than_a_failed_extension_is_retried(store: Recorder, keeper: Keeper) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = StoreUnavailable("away")
    for done in range(31):
        keeper.report(lease, Progress(done=done))
        store.now += PROGRESS_INTERVAL
        keeper.extend_due()

    assert [request[0].progress for request in store.requests] == [Progress(done=done) for done in (0, 15, 30)]


def test_a_lease_is_extended_although_the_table_rejects_each_of_many_reports(store: Recorder) -> None:
    def reject_progress(extensions: Sequence[Extension]) -> list[HoldStatus]:
        keeper.report(lease, Progress(done=len(store.requests)))
        store.answer = HoldStatus.REJECTED if extensions[0].progress is not None else HoldStatus.HELD
        return store.extend(extensions)

    keeper = Still(reject_progress, store.ticks)
    lease = lease_of(store)
    keeper.keep([lease])
    keeper.report(lease, Progress(done=0))
    for _ in range(3):
        store.now += PROGRESS_INTERVAL
        for _ in range(3):
            keeper.extend_due()

    assert [request[0].progress is None for request in store.requests] == [False, True] * 3
    assert lease.valid_until == store.now + 60 * (1 - CLOCK_DRIFT_MARGIN)


def test_a_blocked_lease_is_not_extended_with_its_neighbours(store: Recorder, keeper: Keeper) -> None:
    blocked, neighbour = lease_of(store, id="blocked"), lease_of(store, 3, id="neighbour")
    store.answers_by_id = {"blocked": HoldStatus.BUSY}
    keeper.keep([blocked, neighbour])
    tried_after = []
    for seconds in range(1, 31):
        store.now += 1
        before = len(store.requests)
        keeper.extend_due()
        if any(each.hold.id == "blocked" for request in store.requests[before:] for each in request):
            tried_after.append(seconds)

    assert len(store.requests) > len(tried_after)
    assert tried_after == [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]


@pytest.mark.parametrize("interval", [0.5, 3, 7])
def test_a_blocked_lease_is_logged_once_until_it_is_extended(
    store: Recorder, keeper: Keeper, caplog: pytest.LogCaptureFixture, interval: float
) -> None:
    def extend_for(duration: float) -> None:
        for _ in range(int(duration / interval)):
            store.now += interval
            keeper.extend_due()

    lease = lease_of(store)
    keeper.keep([lease])
    store.answer = HoldStatus.BUSY
    extend_for(29)
    before_half_of_the_lease = len(caplog.records)
    extend_for(28)
    in_the_first_phase = len(caplog.records)
    keeper.record_extension(lease, HoldStatus.HELD, store.now, lease.length)
    extend_for(58)

    assert (before_half_of_the_lease, in_the_first_phase, len(caplog.records)) == (0, 1, 2)
    assert all("lease of job a not extended" in text for text in caplog.messages)


@pytest.mark.parametrize(("response_time", "lost_in"), [(7, "25 s"), (45, "0 s")])
def test_a_blocked_lease_is_logged_when_the_store_is_slow(
    store: Recorder, caplog: pytest.LogCaptureFixture, response_time: float, lost_in: str
) -> None:
    def slow(extensions: Sequence[Extension]) -> list[HoldStatus]:
        store.now += response_time
        return [HoldStatus.BUSY] * len(extensions)

    keeper = Still(slow, store.ticks)
    keeper.keep([lease_of(store)])
    store.now += 20
    for _ in range(4):
        keeper.extend_due()

    assert [text.rpartition(" in ")[2] for text in caplog.messages if "not extended" in text] == [lost_in]


def test_a_blocked_lease_is_logged_although_its_holder_tries_to_extend_it(
    store: Recorder, keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    for _ in range(50):
        store.now += 1
        keeper.record_extension(lease, HoldStatus.BUSY, store.now, lease.length)
        keeper.extend_due()

    assert [text.split(":")[0] for text in caplog.messages] == ["lease of job a not extended"]


@pytest.mark.parametrize("status", BLOCKED)
def test_a_lost_claim_is_logged_once_although_its_holder_tries_to_extend_it(
    store: Recorder, keeper: Keeper, caplog: pytest.LogCaptureFixture, status: HoldStatus
) -> None:
    lease = lease_of(store)
    keeper.keep([lease])
    store.now += 60
    keeper.extend_due()
    for _ in range(50):
        store.now += 1
        keeper.record_extension(lease, status, store.now, lease.length)
        keeper.extend_due()

    assert [text.split(":")[0] for text in caplog.messages] == ["claim of job a lost"]


def test_a_claim_that_ended_while_its_job_was_locked_is_not_logged(
    store: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    def extend(extensions: Sequence[Extension]) -> list[HoldStatus]:
        keeper.end(lease)
        return [HoldStatus.BUSY] * len(extensions)

    keeper = Still(extend, store.ticks)
    lease = lease_of(store)
    keeper.keep([lease])
    store.now += 40
    keeper.extend_due()

    assert caplog.messages == []
