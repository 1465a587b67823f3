"""Explaining a job: the order of the reasons, and cases that are hard to reach with a store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenure.core.checks import EARLIEST
from tenure.core.explanation import Explanation, claim_filters_for, explain, explain_row
from tenure.core.job import Ending, Job, Outcome, State
from tenure.core.operations import MAX_AHEAD_COUNTED, ClaimOutlook, WorkerInfo
from tenure.core.reasons import Reason, ReasonKind

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
UNSEEN = "swordfish"
JOB = Job(
    id="a b", type="t", payload={"n": UNSEEN}, queue="q", key=None, priority=0, run_at=NOW, state=State.QUEUED,
    attempts=0, crashes=0, max_attempts=None, max_crashes=3, timeout=None, fence=3, worker=None, leased_until=None,
    progress=None, cancel_requested=False, result=None, result_dropped=False, history=(), history_dropped=0, meta={},
    created_at=NOW, started_at=None, finished_at=None,
)  # fmt: skip
RUNNING = replace(JOB, state=State.RUNNING, worker="w1", leased_until=NOW + timedelta(seconds=60), started_at=NOW)
FAILED = replace(JOB, state=State.FAILED, finished_at=NOW)
CANCELLED = replace(JOB, state=State.CANCELLED, finished_at=NOW)


LATER = replace(JOB, run_at=NOW + timedelta(seconds=200), attempts=1, max_attempts=5)


def worker(name: str = "w1", **options: object) -> WorkerInfo:
    return WorkerInfo(name=name, host="h", pid=7, version="1", started_at=NOW, beat_at=NOW, **options)  # type: ignore[arg-type]


def ending(outcome: Outcome, error: str | None = None, *, fence: int = 3) -> Ending:
    return Ending(outcome=outcome, fence=fence, ended_at=NOW, error=error)


def explained(job: Job, *workers: WorkerInfo, **options: object) -> Explanation:
    return explain(ClaimOutlook(now=NOW, job=job, **options), workers)  # type: ignore[arg-type]


def first(job: Job, *workers: WorkerInfo, **options: object) -> str:
    return explained(job, *workers, **options).reasons[0].text


def text_of(kind: ReasonKind, job: Job, *workers: WorkerInfo, **options: object) -> str:
    (found,) = (each.text for each in explained(job, *workers, **options).reasons if each.kind is kind)
    return found


def test_what_does_not_hold_is_told_first_and_the_verdict_names_the_first_of_it() -> None:
    explanation = explained(replace(JOB, run_at=NOW + timedelta(seconds=1)), is_paused=True)

    assert [each.kind for each in explanation.reasons] == ["paused", "due", "takers", "attempts"]
    assert [each.holds for each in explanation.reasons] == [False, False, False, True]
    assert explanation.verdict == "not running: its queue 'q' is paused (and 2 more reasons)"


def test_one_reason_more_is_told_as_one() -> None:
    assert explained(JOB, is_paused=True).verdict.endswith(" (and 1 more reason)")


def test_a_running_job_with_a_reason_is_running_but() -> None:
    explanation = explained(replace(RUNNING, cancel_requested=True))

    assert explanation.verdict == "running, but a cancel was requested"


def test_conditions_that_hold_are_told_as_well() -> None:
    assert [each.text for each in explained(JOB, worker(concurrency=2)).reasons] == [
        "its queue 'q' is not paused",
        "it has been due since 2026-01-01T12:00:00Z (0 s ago)",
        "1 live worker takes it: 'w1'; last heartbeat 0 s ago",
        "its workers have 2 of 2 slots free",
        "no due job is ahead of it",
        "the next is attempt 1",
    ]


def test_a_back_off_is_told_with_the_error() -> None:
    job = replace(LATER, history=(ending(Outcome.FAILED, "Traceback…\nValueError: no"),))

    assert first(job) == (
        "it is not due until 2026-01-01T12:03:20Z (in 3 min 20 s): attempt 1 of 5 failed: ValueError: no"
    )


def test_a_retry_is_told_with_its_reason_if_it_has_one() -> None:
    with_a_reason = replace(LATER, history=(ending(Outcome.RETRIED, "busy"),))
    without = replace(LATER, history=(ending(Outcome.RETRIED),))

    assert first(with_a_reason).endswith(": attempt 1 of 5 requested a retry: busy")
    assert first(without).endswith(": attempt 1 of 5 requested a retry")


def test_a_snooze_is_told() -> None:
    assert first(replace(LATER, history=(ending(Outcome.SNOOZED),))).endswith(": its handler snoozed it")


def test_workers_of_other_queues_are_told_from_workers_of_other_types() -> None:
    assert first(JOB) == "no live workers"
    assert first(JOB, worker(types=("u",))) == "no live worker takes its type 't'; they take 'u'"
    assert first(JOB, worker(types=("u",)), worker(types=("t",), queues=("b", "a"))) == (
        "no live worker takes its type from its queue 'q'; they take it from 'a', 'b'"
    )


def test_workers_that_stand_still_are_a_reason_if_all_do() -> None:
    still, well = worker(quiet_for=70.0), worker("w2", quiet_for=5.0)

    assert first(JOB, still) == "the event loop or claim loop of 'w1' has been blocked for 1 min 10 s"
    assert explained(JOB, still, well).verdict == "queued and due: the next claim of a worker takes it"
    assert "'w2'" not in text_of(ReasonKind.QUIET, JOB, still, well)


def test_busy_slots_are_a_reason() -> None:
    workers = [worker(concurrency=1_000, holding=1_000), worker("w2", concurrency=1, holding=3)]

    assert first(JOB, *workers) == "all 1,001 slots of its workers are busy"


def test_jobs_ahead_for_which_there_are_slots_are_no_reason() -> None:
    assert explained(JOB, worker(concurrency=3), ahead=2).reasons[0].holds
    assert not explained(JOB, worker(concurrency=3, holding=1), ahead=2).reasons[0].holds


def test_a_running_job_is_told_by_its_claim_and_its_holder() -> None:
    explanation = explained(RUNNING, worker(), holder=worker())

    assert explanation.verdict == (
        "running: worker 'w1' (host 'h', pid 7) has held it since 2026-01-01T12:00:00Z (0 s ago), under fence 3"
    )
    assert [each.text for each in explanation.reasons][1:] == [
        "its lease is valid until 2026-01-01T12:01:00Z (in 1 min)",
        "its worker sent a heartbeat 0 s ago",
        "this is attempt 0",
    ]


def test_a_lease_that_ran_out_is_a_reason_at_its_very_moment() -> None:
    assert first(replace(RUNNING, leased_until=NOW)) == (
        "its lease expired at 2026-01-01T12:00:00Z (0 s ago), and no worker has reaped it yet"
    )


def test_a_holder_that_is_silent_or_stands_still_is_a_reason() -> None:
    still = worker(quiet_for=6.0)

    assert first(RUNNING, worker("w2"), holder=worker()) == (
        "its worker sends no heartbeats; the last one was at 2026-01-01T12:00:00Z (0 s ago)"
    )
    assert first(RUNNING, still, holder=still) == "the event loop or claim loop of 'w1' has been blocked for 6 s"


def test_a_cancel_is_told_with_when_and_why_it_was_asked_for() -> None:
    asked = ending(Outcome.OPERATOR, "cancel: wrong file")
    job = replace(RUNNING, cancel_requested=True, history=(asked,))

    assert first(job) == "a cancel was requested at 2026-01-01T12:00:00Z (0 s ago): wrong file"


ENDS = [
    (replace(FAILED, crashes=3, history=(ending(Outcome.EXPIRED, "gone"),)), ": crash limit reached (3 of 3): gone"),
    (replace(FAILED, attempts=2, history=(ending(Outcome.FAILED, "no"),)), ": attempt 2 failed for good: no"),
    (replace(CANCELLED, history=(ending(Outcome.OPERATOR, "cancel"),)), " by an operator"),
    (replace(CANCELLED, history=(ending(Outcome.OPERATOR, "cancel: x"), ending(Outcome.FAILED))), " by an operator: x"),
    (replace(CANCELLED, history=(ending(Outcome.CANCELLED, "why"),)), " by its handler: why"),
    (replace(CANCELLED, history=(ending(Outcome.OPERATOR, "retry"), ending(Outcome.CANCELLED))), " by its handler"),
    (replace(JOB, state=State.COMPLETED, finished_at=NOW, worker="w1"), " by worker 'w1'"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "how"), ENDS)
def test_a_finished_job_is_told_by_how_it_ended(job: Job, how: str) -> None:
    assert first(job).endswith(f"(0 s ago){how}")


def test_an_explanation_is_shown_line_by_line() -> None:
    reasons = (
        Reason(kind=ReasonKind.PAUSED, text="its queue is paused", holds=False, remedy="resume it"),
        Reason(kind=ReasonKind.DUE, text="it is due", holds=True),
    )
    explanation = Explanation(job=JOB, now=NOW, verdict="not running", reasons=reasons)

    assert str(explanation) == "not running\n  - its queue is paused; resume it\n  + it is due"


STATES = [JOB, RUNNING, FAILED, CANCELLED, replace(JOB, state=State.COMPLETED)]


@pytest.mark.parametrize("job", STATES, ids=lambda job: job.state)
def test_the_payload_is_never_shown(job: Job) -> None:
    explanation = explained(job)

    assert UNSEEN not in str(explanation) + repr(explanation)


@pytest.mark.parametrize("job", [FAILED, CANCELLED], ids=lambda job: job.state)
def test_a_command_can_be_copied_into_a_shell(job: Job) -> None:
    assert str(explained(job).reasons[0].remedy).startswith("`tenure jobs retry 'a b'` ")


def test_a_sign_of_life_after_the_stores_moment_was_just_now() -> None:
    later = replace(worker(), beat_at=NOW + timedelta(seconds=9))

    assert text_of(ReasonKind.TAKERS, JOB, later).endswith("last heartbeat 0 s ago")


def test_of_many_workers_a_few_are_named() -> None:
    workers = [worker(f"w{n}") for n in range(7)]

    assert text_of(ReasonKind.TAKERS, JOB, *workers).startswith(
        "7 live workers take it: 'w0', 'w1', 'w2', 'w3', 'w4' and 2 more; "
    )


def test_a_worker_without_types_takes_nothing() -> None:
    assert first(JOB, worker(types=())) == "no live worker takes its type 't'; they take nothing"


@pytest.mark.parametrize(("ahead", "text"), [(1, "1 due job is"), (2, "2 due jobs are"), (9_999, "9,999 due jobs are")])
def test_the_jobs_ahead_are_counted(ahead: int, text: str) -> None:
    assert first(JOB, worker(), ahead=ahead) == f"{text} ahead of it"


def test_where_counting_ended_there_may_be_more() -> None:
    assert first(JOB, worker(), ahead=MAX_AHEAD_COUNTED) == "10,000 or more due jobs are ahead of it"


@pytest.mark.parametrize("options", [{"is_paused": True}, {"job": replace(JOB, run_at=NOW + timedelta(seconds=1))}])
def test_slots_and_those_ahead_are_told_only_of_a_job_whose_turn_it_can_be(options: dict[str, object]) -> None:
    kinds = {each.kind for each in explained(**{"job": JOB, **options}).reasons}  # type: ignore[arg-type]

    assert kinds.isdisjoint({"slots", "ahead"})


def test_a_job_that_may_crash_only_once_more_is_run_alone() -> None:
    assert text_of(ReasonKind.CRASHES, replace(JOB, crashes=1)) == "it has crashed before (1 of 3)"
    assert text_of(ReasonKind.CRASHES, replace(JOB, crashes=2)) == (
        "it has crashed before (2 of 3); the next crash fails it, "
        "so a worker runs it in isolation, while no other job runs there"
    )


@pytest.mark.parametrize("job", [FAILED, CANCELLED], ids=lambda job: job.state)
def test_without_a_history_the_end_alone_is_told(job: Job) -> None:
    what = {State.FAILED: "it failed", State.CANCELLED: "it was cancelled"}[job.state]

    assert first(job) == f"{what} at 2026-01-01T12:00:00Z (0 s ago)"


def test_a_cancel_that_the_history_no_longer_tells_of_is_told_without_its_author() -> None:
    job = replace(CANCELLED, history=(ending(Outcome.OPERATOR, "cancel", fence=2), ending(Outcome.EXPIRED, "lost")))

    assert first(job) == "it was cancelled at 2026-01-01T12:00:00Z (0 s ago)"


def test_a_job_that_failed_without_a_reason_is_told_without_one() -> None:
    job = replace(FAILED, attempts=2, max_attempts=2, history=(ending(Outcome.FAILED),))

    assert first(job).endswith(": no attempts left (2 of 2)")


def test_a_crash_that_was_the_last_attempt_is_told_as_such() -> None:
    job = replace(FAILED, attempts=2, max_attempts=2, crashes=1, history=(ending(Outcome.EXPIRED, "gone"),))

    assert first(job).endswith(": no attempts left (2 of 2): gone")


def test_a_job_that_completed_without_a_known_worker_is_told_without_one() -> None:
    assert first(replace(JOB, state=State.COMPLETED, finished_at=NOW)).endswith("(0 s ago)")


def test_a_released_job_that_is_not_due_is_scheduled() -> None:
    job = replace(JOB, run_at=NOW + timedelta(seconds=1), history=(ending(Outcome.RELEASED),))

    assert first(job).endswith(": it is scheduled")


def test_what_is_asked_for_with_a_job_is_what_its_takers_claim_together() -> None:
    takers = [worker(queues=("q", "b"), types=("t",)), worker(queues=("a", "q"), types=("u", "t"))]
    other = worker(queues=None, types=("u",))

    assert claim_filters_for(JOB, [*takers, other]) == (("a", "b", "q"), ("t", "u"))


def test_a_taker_of_everything_asks_for_everything() -> None:
    assert claim_filters_for(JOB, [worker(), worker(queues=("q",), types=("t",))]) == (None, None)


def test_without_takers_the_jobs_own_queue_is_asked_for() -> None:
    assert claim_filters_for(JOB, [worker(types=("u",))]) == (("q",), None)


def test_a_worker_that_stops_takes_nothing() -> None:
    assert first(JOB, worker(concurrency=0)) == "all live workers are stopping: 'w1'"
    assert explained(JOB, worker(concurrency=0), replace(worker(concurrency=1), name="w2")).reasons[0].holds


def told_of_row(job: Job, *workers: WorkerInfo, is_known: bool = False, **options: object) -> str:
    standing = ClaimOutlook(now=NOW, job=job, **options)  # type: ignore[arg-type]
    return str(explain_row(standing, workers if is_known else None))


def test_of_a_row_without_a_registry_neither_workers_nor_queues_are_told() -> None:
    rows = [JOB, LATER, RUNNING, FAILED, replace(JOB, state=State.COMPLETED, finished_at=NOW)]

    told = [told_of_row(row, ahead=ahead) for row in rows for ahead in (0, 3)]

    assert not [text for text in told if "queue " in text or "live" in text or "workers" in text]
    assert told_of_row(JOB).startswith("queued and due: the next claim takes it")
    assert told_of_row(JOB, ahead=3).startswith("not running: 3 due jobs are ahead of it")


def test_a_row_that_where_does_not_choose_is_told_so_first() -> None:
    told = told_of_row(JOB, matches_where=False)

    assert told.startswith("not running: `where` does not select it\n")
    assert "ahead" not in told
    assert "+ `where` selects it" in told_of_row(JOB)


def test_what_moves_a_row_names_its_table() -> None:
    assert "`tenure jobs retry 'a b' --app MODULE:TABLE`" in told_of_row(FAILED)
    assert "`tenure jobs cancel 'a b' --app MODULE:TABLE`" in told_of_row(LATER)
    assert "`tenure reap --app MODULE:TABLE`" in told_of_row(replace(RUNNING, leased_until=NOW))
    assert "change its state in the table" in told_of_row(replace(JOB, state=State.COMPLETED, finished_at=NOW))


def test_of_a_row_with_a_registry_its_workers_are_told() -> None:
    taken = told_of_row(JOB, worker(), is_known=True)
    held = told_of_row(RUNNING, worker(), is_known=True)
    unknown = told_of_row(RUNNING, is_known=True)

    assert "1 live worker takes it: 'w1'" in taken
    assert "its worker sent a heartbeat" in held
    assert "not in the registry" in unknown


def test_a_row_that_somebody_else_set_running_is_told_to_have_no_lease() -> None:
    told = told_of_row(replace(RUNNING, worker=None, leased_until=None))

    assert told.startswith("running, but it has no lease, so it never expires")
    assert "migrate(adopt_running_after=600)" in told
    assert "an unknown holder has held it" in told


def test_a_row_without_a_moment_of_its_own_is_due() -> None:
    assert "+ it is due\n" in told_of_row(replace(JOB, run_at=EARLIEST))
