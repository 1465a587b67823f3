"""Explaining why a job is not running: every reason."""

from tenure.backends.protocol import Backend
from tenure.client.jobs import Jobs
from tenure.core.explanation import Explanation
from tenure.core.operations import MAX_AHEAD_COUNTED, Heartbeat, Move
from tenure.core.reasons import Reason, ReasonKind
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    Taken,
    build_cancellation,
    build_completion,
    build_failure,
    build_record,
    build_retry,
    build_snooze,
    settle,
    take,
    take_one,
)

NEXT = "queued and due: the next claim of a worker takes it"


def explained(store: Backend, id: str = "mine") -> Explanation:
    explanation = Jobs(store).explain(id)
    assert explanation is not None
    return explanation


def reason(store: Backend, kind: ReasonKind) -> Reason:
    """Return the only reason of a kind."""
    (found,) = (each for each in explained(store).reasons if each.kind is kind)
    return found


def against(store: Backend) -> list[str]:
    """Return the texts of the unmet conditions."""
    return [each.text for each in explained(store).reasons if not each.holds]


def given_a_job(store: Backend, **options: object) -> None:
    store.enqueue([build_record("send", id="mine", **options)])


def given_a_worker(store: Backend, name: str = "w1", ttl: float = 3_600, **options: object) -> None:
    store.beat(Heartbeat(name=name, host="h", pid=7, version="1", **options), ttl)  # type: ignore[arg-type]


def given_a_held_job(store: Backend, **options: object) -> Taken:
    given_a_job(store, **options)
    return take_one(store, worker="w1")


def test_an_unknown_job_is_not_explained(store: Backend) -> None:
    assert Jobs(store).explain("nobody") is None


def test_the_explanation_is_of_the_job_at_the_stores_moment(store: Backend, clock: Clock) -> None:
    given_a_job(store)
    clock.advance(9)

    explanation = explained(store)

    assert (explanation.job.id, explanation.now) == ("mine", clock.now)


def test_a_job_that_nothing_holds_up_is_next(store: Backend) -> None:
    given_a_job(store)
    given_a_worker(store)

    assert against(store) == []
    assert explained(store).verdict == NEXT


def test_a_paused_queue_is_a_reason(store: Backend) -> None:
    given_a_job(store, queue="mail")
    given_a_worker(store)
    store.pause(["mail"])

    assert against(store) == ["its queue 'mail' is paused"]
    assert reason(store, ReasonKind.PAUSED).remedy == "`tenure queues resume mail`"


def test_a_time_that_has_not_come_is_a_reason(store: Backend) -> None:
    given_a_job(store, delay=200)
    given_a_worker(store)

    assert against(store) == ["it is not due until 2026-01-01T12:03:20Z (in 3 min 20 s): it is scheduled"]


def test_a_back_off_is_a_reason_with_the_error_before_it(store: Backend) -> None:
    given_a_worker(store)
    settle(store, build_failure(given_a_held_job(store), "Traceback (most recent call last):\n  …\nValueError: no"))

    assert against(store) == [
        "it is not due until 2026-01-01T12:00:10Z (in 10 s): attempt 1 of 5 failed: ValueError: no"
    ]


def test_a_retry_that_was_asked_for_is_a_reason(store: Backend) -> None:
    given_a_worker(store)
    settle(store, build_retry(given_a_held_job(store), delay=30, why="busy"))

    assert against(store) == [
        "it is not due until 2026-01-01T12:00:30Z (in 30 s): attempt 1 of 5 requested a retry: busy"
    ]


def test_a_snooze_is_a_reason(store: Backend) -> None:
    given_a_worker(store)
    settle(store, build_snooze(given_a_held_job(store), 60))

    assert against(store) == ["it is not due until 2026-01-01T12:01:00Z (in 1 min): its handler snoozed it"]


def test_a_job_that_waits_is_run_at_once_by_what_is_advised(store: Backend) -> None:
    given_a_job(store, delay=3_600)
    given_a_worker(store)
    store.move(["mine"], Move.CANCEL)
    store.move(["mine"], Move.RETRY)

    assert explained(store).verdict == NEXT


def test_no_worker_at_all_is_a_reason(store: Backend, clock: Clock) -> None:
    given_a_job(store)
    given_a_worker(store, ttl=30)
    clock.advance(30)

    assert against(store) == ["no live workers"]


def test_no_worker_of_the_type_is_a_reason(store: Backend) -> None:
    given_a_job(store)
    given_a_worker(store, types=("resize", "report"))

    assert against(store) == ["no live worker takes its type 'send'; they take 'report', 'resize'"]


def test_no_worker_of_the_queue_is_a_reason(store: Backend) -> None:
    given_a_job(store, queue="mail")
    given_a_worker(store, "w1", queues=("mail",), types=("resize",))
    given_a_worker(store, "w2", queues=("slow", "default"), types=("send",))

    assert against(store) == [
        "no live worker takes its type from its queue 'mail'; they take it from 'default', 'slow'"
    ]


def test_workers_that_stand_still_are_a_reason(store: Backend) -> None:
    given_a_job(store)
    given_a_worker(store, quiet_for=12.0)

    assert against(store) == ["the event loop or claim loop of 'w1' has been blocked for 12 s"]


def test_a_worker_that_stands_still_beside_another_is_no_reason(store: Backend) -> None:
    given_a_job(store)
    given_a_worker(store, "w1", quiet_for=12.0)
    given_a_worker(store, "w2", quiet_for=5.0)

    assert reason(store, ReasonKind.QUIET).holds
    assert explained(store).verdict == NEXT


def test_busy_workers_are_a_reason(store: Backend) -> None:
    store.enqueue([build_record("send") for _ in range(3)])
    given_a_worker(store, "w1", concurrency=2)
    given_a_worker(store, "w2", concurrency=1)
    take(store, limit=2, worker="w1")
    take(store, limit=1, worker="w2")
    given_a_job(store)

    assert against(store) == ["all 3 slots of its workers are busy"]


def test_what_a_worker_holds_beyond_its_slots_takes_no_slot_of_another(store: Backend) -> None:
    store.enqueue([build_record("send") for _ in range(3)])
    given_a_worker(store, "w1", concurrency=1)
    given_a_worker(store, "w2", concurrency=1)
    take(store, limit=3, worker="w1")
    given_a_job(store)

    assert reason(store, ReasonKind.SLOTS).text == "its workers have 1 of 2 slots free"


def test_jobs_ahead_are_a_reason_if_there_are_no_slots_for_them(store: Backend) -> None:
    store.enqueue([build_record("send") for _ in range(2)])
    given_a_job(store)
    given_a_worker(store, concurrency=2)

    assert against(store) == ["2 due jobs are ahead of it"]


def test_jobs_ahead_are_no_reason_if_there_are_slots_for_them(store: Backend) -> None:
    store.enqueue([build_record("send") for _ in range(2)])
    given_a_job(store)
    given_a_worker(store, concurrency=3)

    assert against(store) == []
    assert reason(store, ReasonKind.AHEAD).text == "2 due jobs are ahead of it, with enough free slots for all"


def test_only_jobs_that_its_workers_take_are_ahead(store: Backend) -> None:
    store.enqueue(
        [build_record("send", queue="slow"), build_record("report"), build_record("resize"), build_record("send")]
    )
    given_a_job(store)
    given_a_worker(store, "w1", queues=("default",), types=("send",))
    given_a_worker(store, "w2", queues=("default", "mail"), types=("send", "report"))
    given_a_worker(store, "w3", queues=("slow",))

    assert against(store) == ["2 due jobs are ahead of it"]


def test_without_a_worker_the_jobs_of_its_queue_are_ahead(store: Backend) -> None:
    store.enqueue([build_record("send", queue="slow"), build_record("report")])
    given_a_job(store)

    assert against(store) == ["no live workers", "1 due job is ahead of it"]


def test_very_many_jobs_ahead_are_not_counted_to_the_end(store: Backend) -> None:
    store.enqueue([build_record("send") for _ in range(MAX_AHEAD_COUNTED)])
    store.enqueue([build_record("send")])
    given_a_job(store)
    given_a_worker(store)

    assert against(store) == ["10,000 or more due jobs are ahead of it"]


def test_a_job_that_may_crash_once_more_is_told_to_run_alone(store: Backend, clock: Clock) -> None:
    given_a_held_job(store, max_crashes=2)
    clock.advance(60)
    store.reap()

    assert reason(store, ReasonKind.ATTEMPTS).text == "the next is attempt 2 of 5"
    assert reason(store, ReasonKind.CRASHES).text == (
        "it has crashed before (1 of 2); the next crash fails it, "
        "so a worker runs it in isolation, while no other job runs there"
    )


def test_a_running_job_is_explained_by_its_holder_and_its_lease(store: Backend, clock: Clock) -> None:
    given_a_worker(store)
    given_a_held_job(store)
    clock.advance(4)

    assert [(each.kind, each.text) for each in explained(store).reasons] == [
        ("held", "worker 'w1' (host 'h', pid 7) has held it since 2026-01-01T12:00:00Z (4 s ago), under fence 1"),
        ("lease", "its lease is valid until 2026-01-01T12:01:00Z (in 56 s)"),
        ("holder", "its worker sent a heartbeat 4 s ago"),
        ("attempts", "this is attempt 1 of 5"),
    ]
    assert explained(store).verdict.startswith("running: worker 'w1' (host 'h', pid 7) has held it since")


def test_a_lease_that_ran_out_is_a_reason(store: Backend, clock: Clock) -> None:
    given_a_worker(store)
    given_a_held_job(store)
    clock.advance(62)

    assert against(store) == [
        "its lease expired at 2026-01-01T12:01:00Z (2 s ago), and no worker has reaped it yet",
    ]


def test_a_holder_that_fell_silent_is_a_reason(store: Backend, clock: Clock) -> None:
    given_a_worker(store, ttl=30)
    given_a_held_job(store)
    clock.advance(40)

    assert against(store) == ["its worker sends no heartbeats; the last one was at 2026-01-01T12:00:00Z (40 s ago)"]


def test_a_holder_that_stands_still_is_a_reason(store: Backend) -> None:
    given_a_worker(store, quiet_for=70.0)
    given_a_held_job(store)

    assert against(store) == ["the event loop or claim loop of 'w1' has been blocked for 1 min 10 s"]


def test_a_holder_that_claims_by_hand_is_told(store: Backend) -> None:
    given_a_held_job(store)

    assert against(store) == []
    assert reason(store, ReasonKind.HOLDER).text == (
        "its worker is not in the registry: programs that claim by hand send no heartbeats"
    )


def test_a_cancel_that_was_asked_for_is_a_reason(store: Backend, clock: Clock) -> None:
    given_a_held_job(store)
    store.move(["mine"], Move.CANCEL, "the wrong file")
    clock.advance(10)

    assert against(store) == ["a cancel was requested at 2026-01-01T12:00:00Z (10 s ago): the wrong file"]


def test_a_completed_job_is_explained(store: Backend, clock: Clock) -> None:
    settle(store, build_completion(given_a_held_job(store)))
    clock.advance(7_260)

    assert against(store) == ["it was completed at 2026-01-01T12:00:00Z (2 h 1 min ago) by worker 'w1'"]


def test_a_job_whose_attempts_are_spent_is_explained(store: Backend) -> None:
    settle(store, build_failure(given_a_held_job(store, max_attempts=1), "Traceback…\nValueError: no"))

    assert against(store) == ["it failed at 2026-01-01T12:00:00Z (0 s ago): no attempts left (1 of 1): ValueError: no"]
    assert explained(store).reasons[0].remedy == "`tenure jobs retry mine` queues it again, with new attempts"


def test_a_job_whose_crashes_are_spent_is_explained(store: Backend, clock: Clock) -> None:
    given_a_held_job(store, max_crashes=1)
    clock.advance(60)
    store.reap()
    (text,) = against(store)

    assert text == (
        "it failed at 2026-01-01T12:01:00Z (0 s ago): crash limit reached (1 of 1): lease expired at "
        "2026-01-01T12:01:00+00:00; worker 'w1' claimed the job at 2026-01-01T12:00:00+00:00"
    )


def test_a_job_that_was_given_up_is_explained(store: Backend) -> None:
    settle(store, build_failure(given_a_held_job(store), "no such user", final=True))

    assert against(store) == [
        "it failed at 2026-01-01T12:00:00Z (0 s ago): attempt 1 of 5 failed for good: no such user"
    ]


def test_a_job_that_an_operator_cancelled_is_explained(store: Backend) -> None:
    given_a_job(store)
    store.move(["mine"], Move.CANCEL, "not wanted")

    assert against(store) == ["it was cancelled at 2026-01-01T12:00:00Z (0 s ago) by an operator: not wanted"]


def test_a_job_that_was_cancelled_while_it_ran_is_explained_by_who_asked(store: Backend) -> None:
    taken = given_a_held_job(store)
    store.move(["mine"], Move.CANCEL)
    settle(store, build_failure(taken, "interrupted"))

    assert against(store) == ["it was cancelled at 2026-01-01T12:00:00Z (0 s ago) by an operator"]


def test_a_job_that_its_handler_cancelled_is_explained(store: Backend) -> None:
    given_a_job(store)
    store.move(["mine"], Move.CANCEL, "not yet")
    store.move(["mine"], Move.RETRY)
    settle(store, build_cancellation(take_one(store), "no longer needed"))

    assert against(store) == ["it was cancelled at 2026-01-01T12:00:00Z (0 s ago) by its handler: no longer needed"]


def test_workers_that_stop_are_a_reason(store: Backend) -> None:
    given_a_job(store)
    given_a_worker(store, concurrency=0)

    assert against(store) == ["all live workers are stopping: 'w1'"]
