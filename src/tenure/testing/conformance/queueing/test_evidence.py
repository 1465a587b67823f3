"""The history line of an expired claim: its holder and the last heartbeat."""

from tenure.backends.protocol import Backend
from tenure.core.job import Outcome
from tenure.core.operations import SILENT_WORKER_TTL, Heartbeat, Query
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record, build_snooze, ids_of, job_of, settle, take, take_one

RAN_OUT = "lease expired at 2026-01-01T12:01:00+00:00; worker 'w1' claimed the job at 2026-01-01T12:00:00+00:00"
SIGN = "; last heartbeat at 2026-01-01T12:00:00+00:00 (host 'b', pid 41)"


def beat(store: Backend, worker: str, ttl: float = 30) -> None:
    store.beat(Heartbeat(name=worker, host="b", pid=41, version="1"), ttl)


def take_as(store: Backend, worker: str, lease: float = 60) -> str:
    """Enqueue and claim a job; return the id."""
    store.enqueue([build_record(priority=9)])
    return take_one(store, worker=worker, lease=lease).id


def error_of(store: Backend, id: str) -> str | None:
    """Return the error in the last line of a job's history."""
    ending = job_of(store, id).history[-1]
    assert ending.outcome is Outcome.EXPIRED
    return ending.error


def test_a_lease_that_ran_out_is_told_with_the_holders_last_sign_of_life(store: Backend, clock: Clock) -> None:
    beat(store, "w1", ttl=100)
    id = take_as(store, "w1")
    clock.advance(60)
    store.reap()

    assert error_of(store, id) == RAN_OUT + SIGN


def test_a_claim_that_takes_over_tells_the_same(store: Backend, clock: Clock) -> None:
    beat(store, "w1")
    id = take_as(store, "w1")
    clock.advance(75)
    take(store, worker="w2")

    assert error_of(store, id) == RAN_OUT + SIGN


def test_the_last_sign_of_life_is_the_latest(store: Backend, clock: Clock) -> None:
    beat(store, "w1")
    id = take_as(store, "w1")
    clock.advance(58.5)
    beat(store, "w1")
    clock.advance(1.5)
    store.reap()

    assert error_of(store, id) == (f"{RAN_OUT}; last heartbeat at 2026-01-01T12:00:58.500000+00:00 (host 'b', pid 41)")


def test_of_a_holder_that_gave_no_sign_only_the_claim_is_told(store: Backend, clock: Clock) -> None:
    beat(store, "w2")
    id = take_as(store, "w1")
    clock.advance(60)
    store.reap()

    assert error_of(store, id) == RAN_OUT


def test_each_holder_is_told_with_its_own_sign_of_life(store: Backend, clock: Clock) -> None:
    beat(store, "w1")
    first, second, third = take_as(store, "w1"), take_as(store, "w2"), take_as(store, "w3")
    clock.advance(10)
    beat(store, "w2")
    clock.advance(50)
    store.reap()

    errors = [str(error_of(store, id)) for id in (first, second, third)]
    assert [each.partition("; last heartbeat at ")[2][:19] for each in errors] == [
        "2026-01-01T12:00:00",
        "2026-01-01T12:00:10",
        "",
    ]


def test_a_worker_that_is_said_to_be_dead_is_told_so(store: Backend, clock: Clock) -> None:
    beat(store, "w1")
    registered, not_registered = take_as(store, "w1"), take_as(store, "w2")
    clock.advance(5)
    store.reap(worker="w1")
    store.reap(worker="w2")

    claimed = "claimed the job at 2026-01-01T12:00:00+00:00"
    assert error_of(store, registered) == f"worker 'w1' was reported dead; it {claimed}{SIGN}"
    assert error_of(store, not_registered) == f"worker 'w2' was reported dead; it {claimed}"


def test_a_job_that_was_only_buffered_is_released_without_an_error(store: Backend) -> None:
    id = take_as(store, "w1")
    store.reap(worker="w1", started=[])

    (ending,) = job_of(store, id).history
    assert (ending.outcome, ending.error) == (Outcome.RELEASED, None)


def test_a_silent_worker_is_remembered_for_a_day_after_it_was_shown(store: Backend, clock: Clock) -> None:
    beat(store, "w1", ttl=30)
    before, after = take_as(store, "w1"), take_as(store, "w1")
    clock.advance(SILENT_WORKER_TTL + 29)
    beat(store, "w2")
    store.reap(limit=1)
    clock.advance(1)
    store.reap(limit=1)

    assert error_of(store, before) == RAN_OUT + SIGN
    assert error_of(store, after) == RAN_OUT
    assert [each.name for each in store.workers()] == ["w2"]


def test_a_worker_that_signed_off_is_forgotten_at_once(store: Backend, clock: Clock) -> None:
    beat(store, "w1")
    id = take_as(store, "w1")
    beat(store, "w1", ttl=0)
    clock.advance(60)
    store.reap()

    assert error_of(store, id) == RAN_OUT


def test_the_evidence_is_among_the_errors_of_a_job_and_found_by_its_text(store: Backend, clock: Clock) -> None:
    lost = take_as(store, "w1")
    store.enqueue([build_record()])
    settle(store, build_snooze(take_one(store)))
    clock.advance(60)
    store.reap()

    assert job_of(store, lost).errors == [RAN_OUT]
    assert ids_of(store.find(Query(error="worker 'w1'")).jobs) == [lost]
