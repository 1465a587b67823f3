"""The state machine of jobs, row by row."""

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest

from tenure.core import transitions
from tenure.core.answers import Answer, Cancel, Fail, Retry, Snooze
from tenure.core.backoff import Backoff
from tenure.core.job import FINISHED, LIVE, Job, Outcome, State
from tenure.core.operations import Event, Hold, Move, Refusal, Settlement, WorkerInfo
from tenure.errors import ConfigurationError, InvalidPayload

HOLD = Hold(id="a", fence=3, token="t")
BACKOFF = Backoff(first=10, factor=2, cap=100)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(attempts: int = 1, max_attempts: int | None = 5) -> Job:
    return Job(
        id="a", type="t", payload={}, queue="q", key=None, priority=0, run_at=NOW, state=State.RUNNING,
        attempts=attempts, crashes=0, max_attempts=max_attempts, max_crashes=3, timeout=None, fence=3, worker="w",
        leased_until=NOW, progress=None, cancel_requested=False, result=None, result_dropped=False, history=(),
        history_dropped=0, meta={}, created_at=NOW, started_at=NOW, finished_at=None,
    )  # fmt: skip


def half() -> float:
    return 0.5


def failed(attempts: int = 1, max_attempts: int | None = 5, *, final: bool = False) -> Settlement:
    return transitions.build_failure(
        HOLD, job(attempts, max_attempts), "why", final=final, backoff=BACKOFF, random=half
    )


def retried(attempts: int = 1, delay: float | None = None, why: str | None = None) -> Settlement:
    return transitions.build_retry(HOLD, job(attempts), delay=delay, why=why, backoff=BACKOFF, random=half)


def answered(answer: Answer, attempts: int = 1) -> Settlement:
    return transitions.build_answer_settlement(HOLD, job(attempts), answer, backoff=BACKOFF, random=half)


TABLE = [
    # outcome, no attempts left, cancel requested: next state
    (Outcome.COMPLETED, False, False, State.COMPLETED),
    (Outcome.COMPLETED, True, True, State.COMPLETED),
    (Outcome.FAILED, False, False, State.QUEUED),
    (Outcome.FAILED, True, False, State.FAILED),
    (Outcome.FAILED, True, True, State.CANCELLED),
    (Outcome.RETRIED, False, False, State.QUEUED),
    (Outcome.SNOOZED, True, False, State.QUEUED),
    (Outcome.SNOOZED, False, True, State.CANCELLED),
    (Outcome.RELEASED, True, False, State.QUEUED),
    (Outcome.RELEASED, False, True, State.CANCELLED),
    (Outcome.CANCELLED, False, False, State.CANCELLED),
    (Outcome.EXPIRED, False, False, State.QUEUED),
    (Outcome.EXPIRED, True, False, State.FAILED),
    (Outcome.EXPIRED, False, True, State.CANCELLED),
]


@pytest.mark.parametrize(("outcome", "spent", "asked", "expected"), TABLE)
def test_where_each_ending_leads(outcome: Outcome, *, spent: bool, asked: bool, expected: State) -> None:
    assert transitions.next_state(outcome, exhausted=spent, cancel_requested=asked) is expected


def test_what_each_ending_does_to_the_counters() -> None:
    counters = {outcome: (rule.attempts, rule.crashes) for outcome, rule in transitions.RULES.items()}

    assert counters == {
        Outcome.COMPLETED: (0, 0),
        Outcome.FAILED: (0, 0),
        Outcome.RETRIED: (0, 0),
        Outcome.SNOOZED: (-1, 0),
        Outcome.RELEASED: (-1, 0),
        Outcome.CANCELLED: (0, 0),
        Outcome.EXPIRED: (0, 1),
    }


@pytest.mark.parametrize(
    ("count", "most", "expected"), [(4, 5, False), (5, 5, True), (6, 5, True), (10**6, None, False)]
)
def test_a_budget_is_spent_when_it_is_reached(count: int, most: int | None, *, expected: bool) -> None:
    assert transitions.is_exhausted(count, most) is expected


def test_complete() -> None:
    assert transitions.build_completion(HOLD, {"a": 1}) == Settlement(
        hold=HOLD, outcome=Outcome.COMPLETED, state=State.COMPLETED, result='{"a":1}'
    )


def test_complete_with_a_result_too_long_to_be_kept() -> None:
    settlement = transitions.build_completion(HOLD, "x" * 300_000)

    assert (settlement.state, settlement.result, settlement.result_dropped) == (State.COMPLETED, None, True)


def test_complete_with_what_is_no_result() -> None:
    with pytest.raises(InvalidPayload):
        transitions.build_completion(HOLD, object())


def test_complete_without_the_result() -> None:
    settlement = transitions.build_completion_without_result(HOLD)

    assert (settlement.state, settlement.result, settlement.result_dropped) == (State.COMPLETED, None, True)


@pytest.mark.parametrize(("attempts", "delay"), [(1, 5.0), (2, 10.0), (3, 20.0), (4, 40.0)])
def test_fail_waits_for_the_back_off(attempts: int, delay: float) -> None:
    assert failed(attempts) == Settlement(
        hold=HOLD, outcome=Outcome.FAILED, state=State.QUEUED, delay=delay, error="why"
    )


def test_fail_with_attempts_spent() -> None:
    assert failed(5) == Settlement(hold=HOLD, outcome=Outcome.FAILED, state=State.FAILED, error="why")


def test_fail_with_unbounded_attempts() -> None:
    assert failed(10**6, None).state is State.QUEUED


def test_fail_for_good() -> None:
    assert failed(1, final=True).state is State.FAILED


def test_an_error_is_kept_at_its_allowed_length() -> None:
    settlement = transitions.build_failure(HOLD, job(), "x" * 99_999, backoff=BACKOFF, random=half)

    assert len((settlement.error or "").encode()) <= 16_384


def test_retry_waits_for_the_back_off() -> None:
    assert retried() == Settlement(hold=HOLD, outcome=Outcome.RETRIED, state=State.QUEUED, delay=5.0)


def test_retry_waits_for_its_own_delay() -> None:
    assert retried(delay=0.0, why="soon").delay == 0.0


@pytest.mark.parametrize(("why", "error"), [("why", "why"), (None, "retry requested, but attempt 5 was the last")])
def test_retry_with_attempts_spent_is_a_failure(why: str | None, error: str) -> None:
    assert retried(5, delay=1.0, why=why) == Settlement(
        hold=HOLD, outcome=Outcome.FAILED, state=State.FAILED, error=error
    )


def test_snooze_and_release_give_the_attempt_back() -> None:
    assert transitions.build_snooze(HOLD, 60) == Settlement(
        hold=HOLD, outcome=Outcome.SNOOZED, state=State.QUEUED, attempts=-1, delay=60
    )
    assert transitions.build_release(HOLD) == Settlement(
        hold=HOLD, outcome=Outcome.RELEASED, state=State.QUEUED, attempts=-1
    )


def test_cancel() -> None:
    assert transitions.build_cancellation(HOLD, "why") == Settlement(
        hold=HOLD, outcome=Outcome.CANCELLED, state=State.CANCELLED, error="why"
    )


def test_answers_settle_as_the_verbs_do() -> None:
    assert answered(Retry(3, "why")) == retried(delay=3.0, why="why")
    assert answered(Retry()) == retried()
    assert answered(Snooze(60)) == transitions.build_snooze(HOLD, 60.0)
    assert answered(Fail("why")) == failed(final=True)
    assert answered(Cancel("why")) == transitions.build_cancellation(HOLD, "why")
    assert answered(Cancel()) == transitions.build_cancellation(HOLD)


@pytest.mark.parametrize("answer", [Retry(3, "why"), Retry(), Snooze(60), Fail("why"), Cancel("why"), Cancel()])
def test_an_answer_crosses_processes(answer: Answer) -> None:
    assert vars(pickle.loads(pickle.dumps(answer))) == vars(answer)  # noqa: S301


@pytest.mark.parametrize("make", [Fail, Cancel, partial(Retry, None)])
def test_an_answer_whose_reason_is_no_text_is_refused_where_it_is_made(make: Callable[[object], Answer]) -> None:
    with pytest.raises(ConfigurationError, match="why must be text, not ValueError"):
        make(ValueError("x"))


def test_an_answer_shows_what_it_is() -> None:
    assert [str(each) for each in (Retry(), Retry(5, "why"), Snooze(60), Fail("why"), Cancel())] == [
        "Retry()",
        "Retry(5.0, 'why')",
        "Snooze(60.0)",
        "Fail('why')",
        "Cancel()",
    ]


def test_every_outcome_is_counted_under_a_name_of_its_own() -> None:
    assert set(Outcome) <= set(map(str, Event))


def test_a_misspelt_option_of_an_answer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Cancel has no option 'reason'; the options are why"):
        Cancel(reason="x")  # type: ignore[call-arg]


def test_an_answer_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="is not one of Retry, Snooze, Fail and Cancel"):
        answered(Answer("?"))


@pytest.mark.parametrize("kind", [Retry, Snooze])
def test_an_answer_with_a_wrong_delay_is_refused_where_it_is_made(kind: type[Retry | Snooze]) -> None:
    with pytest.raises(ConfigurationError, match="delay must be"):
        kind(-1)


@pytest.mark.parametrize("state", State)
def test_retry_moves_failed_and_cancelled_jobs_only(state: State) -> None:
    refused = transitions.refusal(Move.RETRY, state, cancel_requested=False)

    assert (refused is None) == (state in {State.FAILED, State.CANCELLED})


@pytest.mark.parametrize("state", State)
def test_cancel_moves_live_jobs_only(state: State) -> None:
    refused = transitions.refusal(Move.CANCEL, state, cancel_requested=False)

    assert (refused is None) == (state in LIVE)


def test_cancel_is_asked_for_once() -> None:
    assert transitions.refusal(Move.CANCEL, State.RUNNING, cancel_requested=True) is Refusal.CANCEL_REQUESTED


def test_what_the_history_says_of_a_move() -> None:
    assert transitions.move_note(Move.RETRY, None) == "retry"
    assert transitions.move_note(Move.CANCEL, "late\0") == "cancel: late\ufffd"


def expiry_note(known: WorkerInfo | None = None, *, is_said_dead: bool = False) -> str:
    return transitions.expiry_note(
        "host:41",
        claimed_at=NOW,
        leased_until=NOW + timedelta(seconds=91),
        registered=known,
        is_reported_dead=is_said_dead,
    )


def known_worker(host: str = "b") -> WorkerInfo:
    beat_at = (NOW + timedelta(seconds=58)).astimezone(timezone(timedelta(hours=5)))
    return WorkerInfo(name="host:41", host=host, pid=41, version="1", started_at=NOW, beat_at=beat_at)


def test_what_the_history_says_of_a_lease_that_ran_out() -> None:
    ran_out = (
        "lease expired at 2026-01-01T00:01:31+00:00; worker 'host:41' claimed the job at 2026-01-01T00:00:00+00:00"
    )

    assert expiry_note() == ran_out
    assert expiry_note(known_worker()) == (f"{ran_out}; last heartbeat at 2026-01-01T00:00:58+00:00 (host 'b', pid 41)")


def test_what_the_history_says_of_a_worker_that_was_said_to_be_dead() -> None:
    said_dead = "worker 'host:41' was reported dead; it claimed the job at 2026-01-01T00:00:00+00:00"

    assert expiry_note(is_said_dead=True) == said_dead
    assert expiry_note(known_worker(), is_said_dead=True) == (
        f"{said_dead}; last heartbeat at 2026-01-01T00:00:58+00:00 (host 'b', pid 41)"
    )


def test_live_and_finished_are_all_states() -> None:
    assert set(State) == LIVE | FINISHED
    assert not LIVE & FINISHED


def test_a_rejected_outcome_is_a_final_failure_with_the_message_of_the_table() -> None:
    completion = transitions.build_completion(HOLD)

    rejection = transitions.build_rejection(completion, "violates a check")

    assert (rejection.hold, rejection.outcome, rejection.state) == (HOLD, Outcome.FAILED, State.FAILED)
    assert rejection.error == "the table rejected the outcome 'completed': violates a check"


def test_a_rejected_failure_keeps_its_own_error() -> None:
    cancelled = transitions.build_cancellation(HOLD, "not needed")

    rejection = transitions.build_rejection(cancelled, "violates a check")

    assert rejection.error == "the table rejected the outcome 'cancelled': violates a check\nnot needed"
