"""The public API of `Jobs`."""

import logging
import pickle
import re
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import tenure
from tenure.backends import urls
from tenure.backends.memory import Memory
from tenure.backends.protocol import SWEEP, Backend
from tenure.client.keeper import CLOCK_DRIFT_MARGIN, ticks
from tenure.core.operations import Claimed, ClaimRequest, Extension, Heartbeat, HoldStatus, Reaped
from tenure.testing import Clock, Harness
from tenure.testing.conformance.building import request


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(harness: Harness, clock: Clock) -> Backend:
    return harness.open(clock)


@pytest.fixture
def jobs(store: Backend) -> tenure.Jobs:
    return tenure.Jobs(store)


def test_a_job_is_enqueued_by_type_and_read_back(jobs: tenure.Jobs) -> None:
    id = jobs.enqueue("send", {"to": "ada"}, queue="mail", priority=3)

    job = jobs.get(id)

    assert job is not None
    assert (job.type, job.payload, job.queue, job.priority) == ("send", {"to": "ada"}, "mail", 3)


def test_every_option_reaches_the_job(jobs: tenure.Jobs) -> None:
    run_at = datetime(2030, 1, 1, tzinfo=UTC)
    id = jobs.enqueue(
        "send",
        id="mine",
        run_at=run_at,
        key="k",
        on_conflict="raise",
        max_attempts=None,
        max_crashes=1,
        timeout=timedelta(seconds=9),
        meta={"a": "b"},
    )

    job = jobs.get(id)

    assert job is not None
    assert (job.id, job.run_at, job.key, job.max_attempts, job.max_crashes) == ("mine", run_at, "k", None, 1)
    assert (job.timeout, job.meta) == (9.0, {"a": "b"})


def test_a_job_is_explained_by_what_its_workers_take(jobs: tenure.Jobs, store: Backend) -> None:
    jobs.enqueue_many([tenure.NewJob("send", queue="slow"), tenure.NewJob("report"), tenure.NewJob("send")])
    id = jobs.enqueue("send")
    store.beat(Heartbeat(name="w1", host="h", pid=7, version="1", queues=("default",), types=("send",)), 30)

    explanation = jobs.explain(id)

    assert explanation is not None
    assert explanation.verdict == "not running: 1 due job is ahead of it"


def test_a_job_that_goes_while_it_is_explained_is_explained_as_unknown() -> None:
    class Hasty(Memory):
        def workers(self) -> list[tenure.WorkerInfo]:
            self.delete(["mine"])
            return super().workers()

    jobs = tenure.Jobs(Hasty())
    jobs.enqueue("tick", id="mine")
    jobs.cancel("mine")

    assert jobs.explain("mine") is None


def test_a_job_without_a_payload_has_an_empty_one(jobs: tenure.Jobs) -> None:
    job = jobs.get(jobs.enqueue("tick"))

    assert job is not None
    assert job.payload == {}


def test_ids_are_made_in_time_order(jobs: tenure.Jobs) -> None:
    first = jobs.enqueue("a")
    threading.Event().wait(0.002)

    assert first < jobs.enqueue("a")


def test_many_jobs_are_enqueued_at_once_in_order(jobs: tenure.Jobs) -> None:
    ids = jobs.enqueue_many(tenure.NewJob("send", {"n": n}) for n in range(5))

    assert [job.payload["n"] for job in jobs.find(newest_first=False)] == [0, 1, 2, 3, 4]
    assert len(set(ids)) == 5


def test_of_many_jobs_one_that_is_wrong_keeps_all_out(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.InvalidPayload):
        jobs.enqueue_many([tenure.NewJob("send"), tenure.NewJob("send", {"a": object()})])

    assert list(jobs.find()) == []


def test_what_is_no_job_is_refused(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match=r"a job must be a NewJob, not {'type': 'send'}"):
        jobs.enqueue_many([{"type": "send"}])  # type: ignore[list-item]
    with pytest.raises(tenure.ConfigurationError, match="enqueue_many takes an iterable of NewJob, not NewJob"):
        jobs.enqueue_many(tenure.NewJob("send"))  # type: ignore[arg-type]


def test_more_jobs_than_one_request_stores_are_refused_and_none_is_stored(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match="at most 10,000; enqueue them in batches"):
        jobs.enqueue_many(tenure.NewJob("a") for _ in range(10_001))

    assert jobs.stats().rows == ()


def test_enqueueing_no_jobs_is_fine(jobs: tenure.Jobs) -> None:
    assert jobs.enqueue_many([]) == []


def test_a_taken_key_returns_the_id_of_its_job_or_raises(jobs: tenure.Jobs) -> None:
    id = jobs.enqueue("send", key="m7")

    assert jobs.enqueue("send", key="m7") == id
    with pytest.raises(tenure.KeyTaken, match="key 'm7' of queue 'default' is taken by the live job"):
        jobs.enqueue("send", key="m7", on_conflict="raise")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a payload that is a list": ({"payload": [1]}, "the payload must be a JSON object"),
    "a priority too high": ({"priority": 40_000}, "priority must be -32,768 to 32,767, not 40000"),
    "a misspelt option": ({"prioritty": 1}, "enqueue has no option 'prioritty'; did you mean 'priority'?"),
    "a time without a zone": ({"run_at": datetime(2030, 1, 1)}, "run_at must have a time zone"),  # noqa: DTZ001
    "a negative delay": ({"delay": -5}, "delay must be 0 to"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option_is_one_clear_error_and_nothing_is_stored(jobs: tenure.Jobs, name: str) -> None:
    options, message = WRONG[name]

    with pytest.raises(tenure.TenureError) as caught:
        jobs.enqueue("send", **options)

    assert message in str(caught.value)
    assert list(jobs.find()) == []


def test_claims_take_queues_and_types_as_one_string_or_several(jobs: tenure.Jobs) -> None:
    jobs.enqueue("a", queue="x")
    jobs.enqueue("b", queue="y")
    jobs.enqueue("c", queue="y")

    assert [claim.job.type for claim in jobs.claim(queues="x")] == ["a"]
    assert [claim.job.type for claim in jobs.claim(queues=["x", "y"], types={"c"}, limit=5)] == ["c"]


def test_a_claim_names_this_process_unless_told_otherwise(jobs: tenure.Jobs) -> None:
    jobs.enqueue_many([tenure.NewJob("a"), tenure.NewJob("a")])
    (by_default,) = jobs.claim()
    (by_name,) = jobs.claim(worker="w1")

    assert by_default.job.worker is not None
    assert by_default.job.worker.rpartition(":")[2].isdecimal()
    assert by_name.job.worker == "w1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit must be 1 to 1,000, not 0"),
        ({"lease": 0.1}, "lease must be 1 to 86,400 seconds, not 0.1"),
        ({"queues": []}, "queues is empty"),
        ({"wait": -1}, "wait must be 0 to"),
        ({"queue": "x"}, "claim has no option 'queue'; did you mean 'queues'?"),
    ],
)
def test_a_wrong_claim_is_refused(jobs: tenure.Jobs, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tenure.ConfigurationError) as caught:
        jobs.claim(**options)

    assert message in str(caught.value)


def test_a_claim_waits_for_a_job_to_come() -> None:
    jobs = tenure.Jobs("memory://")
    timer = threading.Timer(0.05, jobs.enqueue, ["late"])
    timer.start()

    claims = jobs.claim(wait=120)

    assert [claim.job.type for claim in claims] == ["late"]


class Recording(Memory):
    """A memory store that records its claim requests, and can run a callback before it responds."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[ClaimRequest] = []
        self.waits: list[tuple[Any, Any, float]] = []
        self.is_closed = False
        self.asked_at = 0.0
        self.before_the_answer: Callable[[], object] = lambda: None

    def claim(self, request: ClaimRequest) -> Claimed:
        self.asked_at = ticks()
        self.requests.append(request)
        answer = super().claim(request)
        self.before_the_answer()
        return answer

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        self.asked_at = ticks()
        answer = super().extend(extensions)
        self.before_the_answer()
        return answer

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        self.waits.append((queues, types, timeout))
        super().wait(queues, types, min(timeout, 0.001))

    def close(self) -> None:
        self.is_closed = True


def test_each_look_of_a_waiting_claim_has_a_token_of_its_own() -> None:
    store = Recording()
    jobs = tenure.Jobs(store)
    store.before_the_answer = lambda: jobs.enqueue("a") if len(store.requests) == 3 else None

    jobs.claim(wait=3600)

    assert len({request.token for request in store.requests}) == len(store.requests) == 4


def test_a_waiting_claim_looks_again_after_a_second_at_most_for_what_it_wants() -> None:
    store = Recording()
    store.before_the_answer = lambda: store.enqueue([tenure.NewJob("b", queue="q").record("x")])
    tenure.Jobs(store).claim(wait=3600, queues="q", types=["b"])

    assert store.waits == [(("q",), ("b",), 1.0)]


def test_a_lease_counts_from_before_the_claim_was_sent() -> None:
    store = Recording()
    jobs = tenure.Jobs(store)
    jobs.enqueue("a")

    (claim,) = jobs.claim(lease=10)

    assert claim.lease.valid_until < store.asked_at + 10 * (1 - CLOCK_DRIFT_MARGIN)


def test_an_extension_counts_from_before_it_was_sent() -> None:
    store = Recording()
    jobs = tenure.Jobs(store)
    jobs.enqueue("a")
    (claim,) = jobs.claim(lease=10)

    claim.extend(100)

    assert claim.lease.valid_until < store.asked_at + 100 * (1 - CLOCK_DRIFT_MARGIN)


def test_what_was_claimed_while_it_was_closed_is_given_back() -> None:
    store = Recording()
    jobs = tenure.Jobs(store)
    jobs.enqueue("a")
    store.before_the_answer = jobs.close

    with pytest.raises(tenure.StoreUnavailable, match="this Jobs is closed"):
        jobs.claim()

    assert store.stats().total("due") == 1


def test_closing_closes_the_store() -> None:
    store = Recording()
    jobs = tenure.Jobs(store)
    jobs.stats()
    jobs.close()

    assert store.is_closed


def test_a_claim_waits_no_longer_than_asked() -> None:
    assert tenure.Jobs("memory://").claim(wait=0.01) == []


def test_an_unknown_id_is_none(jobs: tenure.Jobs) -> None:
    assert jobs.get("nobody") is None


def test_find_reads_more_than_one_page(jobs: tenure.Jobs) -> None:
    ids = jobs.enqueue_many(tenure.NewJob("a") for _ in range(2_500))

    assert [job.id for job in jobs.find(newest_first=False)] == ids


def test_find_takes_the_conditions_by_name(jobs: tenure.Jobs) -> None:
    jobs.enqueue("a", queue="x")
    wanted = jobs.enqueue("b", queue="x")

    assert [job.id for job in jobs.find(state="queued", queue="x", type="b")] == [wanted]


def test_a_wrong_condition_is_refused_before_anything_is_read(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match="did you mean 'queued'"):
        jobs.find(state="queud")  # type: ignore[arg-type]
    with pytest.raises(tenure.ConfigurationError, match="find has no option 'status'"):
        jobs.find(status="queued")  # type: ignore[call-arg]


def test_jobs_are_cancelled_by_id(jobs: tenure.Jobs) -> None:
    ids = jobs.enqueue_many([tenure.NewJob("a"), tenure.NewJob("a")])

    moved = jobs.cancel([*ids, "nobody"], reason="not wanted")

    assert [each.moved for each in moved] == [True, True, False]
    assert jobs.stats().total("cancelled") == 2
    assert [job.history[0].error for job in jobs.find()] == ["cancel: not wanted"] * 2


def test_one_job_is_cancelled_by_its_id_alone(jobs: tenure.Jobs) -> None:
    id = jobs.enqueue("a")

    assert [str(each) for each in jobs.cancel(id)] == [f"{id}: cancelled"]


def test_jobs_are_cancelled_by_condition(jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("send", queue="mail") for _ in range(2_100))
    other = jobs.enqueue("send", queue="other")

    moved = jobs.cancel(queue="mail", type="send")

    assert len(moved) == 2_100
    assert all(each.moved for each in moved)
    assert [job.id for job in jobs.find(state="queued")] == [other]


def test_cancelling_by_condition_asks_running_jobs_and_leaves_finished_ones_alone(jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("a") for _ in range(2))
    done, running = jobs.claim(limit=2)
    done.complete()

    moved = jobs.cancel(queue="default")

    assert [each.id for each in moved] == [running.id]
    running.extend()
    assert running.cancel_requested


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_moving_jobs_needs_ids_or_a_condition_or_all_and_only_one(jobs: tenure.Jobs, verb: str) -> None:
    jobs.enqueue("a")
    move = getattr(jobs, verb)

    for wrong in (
        {},
        {"queue": None},
        {"newest_first": False},
        {"ids": ["a"], "queue": "x"},
        {"ids": "a", "all": True},
    ):
        with pytest.raises(tenure.ConfigurationError, match=f"choose the jobs to {verb} in exactly one way"):
            move(**wrong)

    assert jobs.stats().total("due") == 1


def test_naming_no_ids_moves_nothing(jobs: tenure.Jobs) -> None:
    jobs.enqueue("a")

    assert jobs.cancel([]) == []
    assert jobs.stats().total("due") == 1


def test_all_jobs_are_cancelled_if_that_is_said(jobs: tenure.Jobs) -> None:
    jobs.enqueue_many(tenure.NewJob("a") for _ in range(3))

    assert len(jobs.cancel(all=True)) == 3


def test_failed_jobs_are_retried_by_condition_and_cancelled_ones_are_not(jobs: tenure.Jobs) -> None:
    failed, cancelled = jobs.enqueue_many([tenure.NewJob("a"), tenure.NewJob("a")])
    jobs.claim()[0].fail("Timeout after 30 s", final=True)
    jobs.cancel(cancelled)

    moved = jobs.retry(error="Timeout", reason="network is back")

    assert [each.id for each in moved] == [failed]
    assert jobs.retry(state="cancelled")[0].id == cancelled


def test_a_misspelt_option_of_a_move_is_refused(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match="cancel has no option 'reson'; did you mean 'reason'"):
        jobs.cancel(["a"], reson="x")  # type: ignore[call-arg]


def test_queues_are_paused_and_resumed(jobs: tenure.Jobs) -> None:
    jobs.enqueue("a", queue="mail")
    jobs.pause("mail")
    while_paused = jobs.claim()
    jobs.resume(["mail"])

    assert while_paused == []
    assert len(jobs.claim()) == 1


def test_old_jobs_are_purged_however_many(jobs: tenure.Jobs, clock: Clock) -> None:
    jobs.enqueue_many(tenure.NewJob("a") for _ in range(2_500))
    jobs.cancel(all=True)
    clock.advance(60)

    assert jobs.purge(61) == 0
    assert jobs.purge(timedelta(minutes=1), state="completed") == 0
    assert jobs.purge(older_than=60, state="cancelled", queue="default") == 2_500
    assert list(jobs.find()) == []


def test_a_purge_of_live_jobs_is_refused(jobs: tenure.Jobs) -> None:
    jobs.enqueue("a")

    with pytest.raises(tenure.ConfigurationError, match="must be one of cancelled, completed, failed, not 'queued'"):
        jobs.purge(0, state="queued")


def test_an_empty_error_is_not_a_condition_that_all_jobs_meet(jobs: tenure.Jobs) -> None:
    jobs.enqueue("a")

    with pytest.raises(tenure.ConfigurationError, match="error must be text, not ''"):
        jobs.cancel(error="")

    assert jobs.stats().total("due") == 1


@pytest.mark.parametrize("verb", ["cancel", "retry", "delete", "pause", "resume"])
def test_what_is_no_name_is_refused(jobs: tenure.Jobs, verb: str) -> None:
    jobs.enqueue("a")

    for wrong in (5, next(jobs.find()), b"a", [["a"]]):
        with pytest.raises(tenure.ConfigurationError, match=r"must be a (name or a list|string)"):
            getattr(jobs, verb)(wrong)


def test_finished_jobs_are_deleted_by_id(jobs: tenure.Jobs) -> None:
    ids = jobs.enqueue_many([tenure.NewJob("a"), tenure.NewJob("a")])
    jobs.cancel(ids[0])

    assert [each.moved for each in jobs.delete(ids)] == [True, False]


def test_expired_claims_are_reaped_however_many(jobs: tenure.Jobs, clock: Clock) -> None:
    """Slow: thousands of leases expire."""
    jobs.enqueue_many(tenure.NewJob("a") for _ in range(1_500))
    jobs.claim(limit=1_000, lease=10)
    jobs.claim(limit=1_000, lease=10)
    clock.advance(10)

    assert len(jobs.reap()) == 1_500


def test_what_a_dead_worker_holds_is_reaped_on_an_operators_word(jobs: tenure.Jobs) -> None:
    jobs.enqueue("a")
    jobs.claim(worker="dead")

    assert [each.worker for each in jobs.reap(worker="dead")] == ["dead"]


def test_a_worker_that_is_said_to_be_dead_is_not_shown_any_more(jobs: tenure.Jobs, store: Backend) -> None:
    store.beat(Heartbeat(name="dead", host="h", pid=7, version="1"), 30)
    store.beat(Heartbeat(name="other", host="h", pid=8, version="1"), 30)
    jobs.enqueue("a", id="a")
    jobs.claim(worker="dead")

    jobs.reap(worker="dead")

    job = jobs.get("a")
    assert [each.name for each in jobs.workers()] == ["other"]
    assert job is not None
    assert "(host 'h', pid 7)" in job.errors[0]


def test_counts_and_workers_are_shown(jobs: tenure.Jobs, store: Backend) -> None:
    jobs.enqueue("a")
    store.beat(Heartbeat(name="w1", host="h", pid=1, version="1"), ttl=60)

    assert [(count.event, count.number) for count in jobs.counts()] == [(tenure.Event.ENQUEUED, 1)]
    assert [worker.name for worker in jobs.workers()] == ["w1"]


def test_counts_reach_back_a_day_at_most(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match="since must be 0 to 86,400 seconds"):
        jobs.counts(since=86_401)


def test_nothing_is_opened_before_first_use() -> None:
    def url() -> str:
        raise AssertionError

    tenure.Jobs(url)


@pytest.mark.parametrize("store", [7, object(), lambda: 7])
def test_what_is_no_store_is_refused(store: Any) -> None:
    with pytest.raises(tenure.ConfigurationError, match="store must be a URL"):
        tenure.Jobs(store).claim()


def test_a_url_may_be_told_later() -> None:
    told: list[str] = []
    jobs = tenure.Jobs(lambda: told[0])
    told.append("memory://")

    assert jobs.claim() == []


def test_a_url_is_asked_for_once_even_by_many_threads() -> None:
    asked: list[str] = []

    def url() -> str:
        asked.append("memory://")
        return asked[0]

    jobs = tenure.Jobs(url)
    threads = [threading.Thread(target=jobs.enqueue, args=("a",)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(asked) == 1
    assert jobs.stats().total("due") == 10


def test_without_a_url_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", "memory://from-the-environment")
    tenure.Jobs().enqueue("a")

    assert len(tenure.Jobs("memory://from-the-environment").claim()) == 1


def test_opening_is_logged_once_without_the_password(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(urls.OPENERS, "test", lambda _: Memory())
    jobs = tenure.Jobs("test://ada:s3cret@host")
    with caplog.at_level(logging.INFO, "tenure"):
        jobs.stats()
        jobs.stats()

    assert [record.message for record in caplog.records] == ["store: test://ada:***@host"]


def test_a_closed_jobs_says_so(jobs: tenure.Jobs) -> None:
    jobs.enqueue("a")
    jobs.close()
    jobs.close()

    with pytest.raises(tenure.StoreUnavailable, match="this Jobs is closed; create a new one"):
        jobs.claim()


def test_a_jobs_that_was_never_used_may_be_closed() -> None:
    tenure.Jobs(lambda: "nonsense").close()


def test_as_a_block_it_closes_itself(store: Backend) -> None:
    with tenure.Jobs(store) as jobs:
        jobs.enqueue("a")

    with pytest.raises(tenure.StoreUnavailable):
        jobs.stats()


def test_an_unknown_option_of_jobs_is_refused() -> None:
    with pytest.raises(tenure.ConfigurationError, match="Jobs has no option 'back_off'; did you mean 'backoff'"):
        tenure.Jobs("memory://", back_off=None)  # type: ignore[call-arg]


def test_a_back_off_that_is_none_is_refused() -> None:
    with pytest.raises(tenure.ConfigurationError, match="backoff must be a Backoff, not 3"):
        tenure.Jobs("memory://", backoff=3)  # type: ignore[arg-type]


def test_a_jobs_made_from_a_url_can_go_to_another_process() -> None:
    jobs = tenure.Jobs("memory://shared", backoff=tenure.Backoff(first=3))
    jobs.enqueue("a", id="a")

    there = pickle.loads(pickle.dumps(jobs))  # noqa: S301

    assert there.get("a") is not None
    assert repr(there) == "<Jobs in memory://shared>"


def test_a_jobs_made_from_a_store_says_that_it_cannot() -> None:
    with pytest.raises(TypeError, match=r"cannot pickle <Jobs in .*: it was not created from a URL"):
        pickle.dumps(tenure.Jobs(Memory()))


def test_a_wrong_url_in_the_environment_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", "bogus")

    with pytest.raises(tenure.ConfigurationError, match="'bogus' is not a store URL") as caught:
        tenure.Jobs().stats()

    assert caught.value.__notes__ == ["the URL comes from $TENURE_URL"]


def test_a_result_that_is_dropped_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    jobs = tenure.Jobs("memory://")
    jobs.enqueue("a")
    (claim,) = jobs.claim()

    claim.complete("x" * 300_000)

    assert "dropped: more than 262,144 bytes of JSON" in caplog.text


def test_the_version_is_known() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", tenure.__version__)


class ClaimedAgain(Memory):
    """A store whose only worker is alive and claims reaped jobs again."""

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        reaped = super().reap(limit, worker, started)
        self.claim(request(worker="w1"))
        return reaped


def test_a_worker_that_lives_does_not_lose_what_it_claims_while_it_is_reaped() -> None:
    store = ClaimedAgain()
    with tenure.Jobs(store) as jobs:
        id = jobs.enqueue("work")
        store.claim(request(worker="w1"))

        reaped = jobs.reap(worker="w1")

        assert [(each.id, each.fence) for each in reaped] == [(id, 1)]
        assert [job.state for job in jobs.find(state="running")] == ["running"]
