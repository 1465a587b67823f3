"""The registry of workers."""

from tenure.backends.protocol import Backend
from tenure.core.operations import Heartbeat, WorkerInfo
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record, take


def beat_of(worker: str, **options: object) -> Heartbeat:
    return Heartbeat(name=worker, host="h", pid=7, version="1", **options)  # type: ignore[arg-type]


def test_a_worker_is_shown_as_it_gave_its_sign(store: Backend, clock: Clock) -> None:
    beat = beat_of("w1", concurrency=8, queues=("a", "b"), types=("t",), quiet_for=0.25)
    store.beat(beat, ttl=30)

    assert store.workers() == [WorkerInfo.from_heartbeat(beat, started_at=clock.now, beat_at=clock.now)]


def test_workers_are_shown_by_name(store: Backend) -> None:
    for name in ("w2", "w10", "w1"):
        store.beat(beat_of(name), ttl=30)

    assert [each.name for each in store.workers()] == ["w1", "w10", "w2"]


def test_a_later_sign_keeps_the_start(store: Backend, clock: Clock) -> None:
    started_at = clock.now
    store.beat(beat_of("w1"), ttl=30)
    clock.advance(20)
    store.beat(beat_of("w1", quiet_for=3.0), ttl=30)

    (worker,) = store.workers()

    assert (worker.started_at, worker.beat_at) == (started_at, clock.now)
    assert worker.quiet_for == 3.0


def test_a_worker_without_a_sign_for_its_time_is_shown_no_more(store: Backend, clock: Clock) -> None:
    store.beat(beat_of("w1"), ttl=30)
    clock.advance(29)
    before = store.workers()
    clock.advance(1)

    assert len(before) == 1
    assert store.workers() == []


def test_a_worker_that_comes_back_starts_over(store: Backend, clock: Clock) -> None:
    store.beat(beat_of("w1"), ttl=30)
    clock.advance(31)
    store.beat(beat_of("w1"), ttl=30)

    assert store.workers()[0].started_at == clock.now


def test_a_worker_signs_off(store: Backend) -> None:
    store.beat(beat_of("w1"), ttl=30)
    store.beat(beat_of("w1"), ttl=0)

    assert store.workers() == []


def test_a_worker_is_shown_with_the_number_of_jobs_that_it_holds(store: Backend) -> None:
    store.enqueue([build_record() for _ in range(3)])
    take(store, limit=2, worker="w1")
    take(store, limit=1, worker="w2")
    store.beat(beat_of("w1"), ttl=30)

    assert store.workers()[0].holding == 2


def test_a_silent_worker_still_holds_its_jobs(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record()])
    store.beat(beat_of("w1"), ttl=1)
    take(store, worker="w1", lease=60)
    clock.advance(2)

    assert take(store, worker="w2") == []
