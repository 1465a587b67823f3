"""The outlook of a job with several queues and types, and its holder."""

from tenure.backends.protocol import SWEEP, Backend
from tenure.core.operations import MAX_AHEAD_COUNTED, SILENT_WORKER_TTL, ClaimOutlook, Heartbeat, WorkerInfo
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, build_record, ids_of, settle, take, take_one

BEAT = Heartbeat(name="w1", host="h", pid=7, version="1", concurrency=8, queues=("a",), types=("t",), quiet_for=0.25)


def standing(
    store: Backend, id: str, *, queues: tuple[str, ...] | None = None, types: tuple[str, ...] | None = None
) -> ClaimOutlook:
    found = store.explain(id, queues, types)
    assert found is not None
    return found


def test_ahead_is_who_a_claim_takes_before(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="early", priority=1), build_record(id="low")])
    clock.advance(5)
    store.enqueue(
        [
            build_record(id="later", priority=1),
            build_record(id="latest", priority=1),
            build_record(id="high", priority=2),
        ]
    )
    in_order = ["high", "early", "later", "latest", "low"]

    numbers = [standing(store, id).ahead for id in in_order]

    assert numbers == [0, 1, 2, 3, 4]
    assert ids_of(take(store, limit=9)) == in_order


def test_the_same_order_holds_for_what_was_not_let_in_yet(store: Backend, clock: Clock) -> None:
    store.enqueue(
        [
            build_record(id="later", delay=2),
            build_record(id="low", delay=1, priority=-1),
            build_record(id="sooner", delay=1),
        ]
    )
    store.enqueue(
        [
            build_record(id="same", delay=2),
            build_record(id="high", delay=2, priority=1),
            build_record(id="not due", delay=3),
        ]
    )
    clock.advance(2)

    numbers = [standing(store, id).ahead for id in ("high", "sooner", "later", "same", "low", "not due")]

    assert numbers == [0, 1, 2, 3, 4, 0]


def test_those_let_in_and_those_not_are_counted_together(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="early", delay=1), build_record(id="taken", priority=9, delay=1)])
    clock.advance(1)
    take_one(store)
    store.enqueue([build_record(id="delayed", delay=1), build_record(id="mine", delay=1)])
    clock.advance(1)

    assert standing(store, "mine").ahead == 2


def test_only_the_queues_given_are_counted(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(queue=queue, delay=delay) for queue in "abc" for delay in (0, 1)])
    store.enqueue([build_record(id="mine", queue="a", delay=1)])
    clock.advance(1)

    assert standing(store, "mine", queues=("a", "c", "nobody")).ahead == 4


def test_only_the_types_given_are_counted(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(type, delay=delay) for type in "abc" for delay in (0, 1)])
    store.enqueue([build_record("a", id="mine", delay=1)])
    clock.advance(1)

    assert standing(store, "mine", types=("a", "c", "nobody")).ahead == 4


def test_queues_and_types_are_given_together(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(type, queue=queue, delay=delay) for queue in "xy" for type in "ab" for delay in (0, 1)])
    store.enqueue([build_record("b", id="mine", queue="y", delay=1)])
    clock.advance(1)

    assert standing(store, "mine", queues=("y",), types=("b",)).ahead == 2
    assert standing(store, "mine").ahead == 8


def test_a_paused_queue_is_told(store: Backend) -> None:
    store.enqueue([build_record(id="mine", queue="a"), build_record(id="other", queue="b")])
    store.pause(["a"])

    assert standing(store, "mine").is_paused
    assert not standing(store, "other").is_paused


def test_a_resumed_queue_is_not_paused(store: Backend) -> None:
    store.enqueue([build_record(id="mine", queue="a")])
    store.pause(["a"])
    store.resume(["a"])

    assert not standing(store, "mine").is_paused


def test_jobs_of_a_paused_queue_are_not_ahead(store: Backend, clock: Clock) -> None:
    store.enqueue(
        [build_record(queue="a"), build_record(queue="a", delay=1), build_record(id="mine", queue="b", delay=1)]
    )
    store.pause(["a"])
    clock.advance(1)

    assert standing(store, "mine").ahead == 0


def test_a_burst_is_counted_at_once(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(delay=10) for _ in range(SWEEP + 500)])
    store.enqueue([build_record(id="mine", delay=10)])
    clock.advance(10)

    assert standing(store, "mine").ahead == SWEEP + 500


def test_no_more_are_counted_than_can_be_told(store: Backend) -> None:
    store.enqueue([build_record("a") for _ in range(MAX_AHEAD_COUNTED // 2)])
    store.enqueue([build_record("b") for _ in range(MAX_AHEAD_COUNTED // 2 + 1)])
    store.enqueue([build_record(id="mine")])

    assert standing(store, "mine").ahead == MAX_AHEAD_COUNTED


def test_the_holder_is_shown_as_it_gave_its_sign(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="mine")])
    store.beat(BEAT, ttl=30)
    take_one(store, worker="w1")

    assert standing(store, "mine").holder == WorkerInfo.from_heartbeat(BEAT, started_at=clock.now, beat_at=clock.now)


def test_a_holder_that_fell_silent_is_remembered(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="mine")])
    store.beat(BEAT, ttl=30)
    take_one(store, worker="w1", lease=86_400)
    beat_at = clock.now
    clock.advance(SILENT_WORKER_TTL + 29)
    holder = standing(store, "mine").holder
    clock.advance(1)

    assert holder is not None
    assert holder.beat_at == beat_at
    assert standing(store, "mine").holder is None


def test_a_job_that_nobody_holds_has_no_holder(store: Backend) -> None:
    store.enqueue([build_record(id="done"), build_record(id="queued")])
    store.beat(BEAT, ttl=30)
    settle(store, build_completion(take_one(store, worker="w1")))

    assert standing(store, "done").holder is None
    assert standing(store, "queued").holder is None
