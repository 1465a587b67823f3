"""The state machine of jobs: a table of rules, and the settlements built from them.

    ending              attempts  crashes  next state
    complete                –        –     completed
    fail, retry             –        –     queued after the back-off; failed if no attempts are left, or if final
    snooze, release        −1        –     queued (snooze: after its delay; release: with the same `run_at`)
    cancel                  –        –     cancelled
    lease expired           –       +1     queued with the same `run_at`; failed if no attempts or crashes are left

A claim counts the attempt (+1). After a cancel request, every ending but complete cancels the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tenure.core import checks
from tenure.core.answers import Answer, Cancel, Fail, Retry, Snooze
from tenure.core.backoff import Backoff, Random
from tenure.core.fast_dataclass import fast_constructor
from tenure.core.job import FINISHED, LIVE, Job, Outcome, State
from tenure.core.operations import Hold, Move, Refusal, Settlement, WorkerInfo
from tenure.core.payload import encode_result


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How an ending changes the counters, and the next state: by default, and if no attempts or crashes are left."""

    state: State
    when_exhausted: State | None = None
    attempts: int = 0
    crashes: int = 0


RULES: Mapping[Outcome, Rule] = {
    Outcome.COMPLETED: Rule(state=State.COMPLETED),
    Outcome.FAILED: Rule(state=State.QUEUED, when_exhausted=State.FAILED),
    Outcome.RETRIED: Rule(state=State.QUEUED),
    Outcome.SNOOZED: Rule(state=State.QUEUED, attempts=-1),
    Outcome.RELEASED: Rule(state=State.QUEUED, attempts=-1),
    Outcome.CANCELLED: Rule(state=State.CANCELLED),
    Outcome.EXPIRED: Rule(state=State.QUEUED, when_exhausted=State.FAILED, crashes=+1),
}

MOVABLE: Mapping[Move, frozenset[State]] = {
    Move.RETRY: frozenset({State.FAILED, State.CANCELLED}),
    Move.CANCEL: LIVE,
}

DELETABLE = FINISHED

_build_settlement = fast_constructor(Settlement)


def is_exhausted(count: int, limit: int | None) -> bool:
    return limit is not None and count >= limit


def fails_on_next_crash(job: Job) -> bool:
    """Return whether the job has crashed before and its next crash fails it."""
    return 0 < job.crashes >= job.max_crashes - 1


def next_state(outcome: Outcome, *, exhausted: bool = False, cancel_requested: bool = False) -> State:
    """Return the state after an ending."""
    rule = RULES[outcome]
    state = rule.when_exhausted if exhausted and rule.when_exhausted is not None else rule.state
    return apply_cancel_request(state, cancel_requested=cancel_requested)


def apply_cancel_request(state: State, *, cancel_requested: bool) -> State:
    """Apply a cancel request to a state that was decided without knowledge of the request."""
    return State.CANCELLED if cancel_requested and state is not State.COMPLETED else state


def refusal(move: Move, state: State, *, cancel_requested: bool) -> Refusal | None:
    """Return why an operator's move is not possible, or None. The job's key is not checked here."""
    if state not in MOVABLE[move]:
        return Refusal.STATE
    if move is Move.CANCEL and cancel_requested:
        return Refusal.CANCEL_REQUESTED
    return None


def move_note(move: Move, reason: str | None) -> str:
    """Return the text of an operator's move in the history."""
    return move.value if reason is None else checks.error_text("reason", f"{move}: {reason}")


def expiry_note(
    worker: str,
    *,
    claimed_at: datetime,
    leased_until: datetime,
    registered: WorkerInfo | None,
    is_reported_dead: bool = False,
) -> str:
    """Return the text of a reaped claim in the history: the holder, and its last heartbeat.

    `registered` is the worker's record in the registry, live or not. `is_reported_dead` means that a caller, such as a
    supervisor, reported the worker dead.
    """
    end = (
        f"worker '{worker}' was reported dead; it"
        if is_reported_dead
        else f"lease expired at {_format_timestamp(leased_until)}; worker '{worker}'"
    )
    note = f"{end} claimed the job at {_format_timestamp(claimed_at)}"
    if registered is not None:
        note += (
            f"; last heartbeat at {_format_timestamp(registered.beat_at)} (host '{registered.host}', pid "
            f"{registered.pid})"
        )
    return note


def build_completion(hold: Hold, result: object = None) -> Settlement:
    """Settle as completed. A result above the size limit is dropped and marked: the work must not run again for it."""
    return _completion(hold, encode_result(result))


def build_completion_without_result(hold: Hold) -> Settlement:
    """Settle as completed, with the result marked as dropped."""
    return _completion(hold, None)


def build_failure(
    hold: Hold, job: Job, error: str, *, backoff: Backoff, random: Random, final: bool = False
) -> Settlement:
    exhausted = checks.boolean("final", final) or is_exhausted(job.attempts, job.max_attempts)
    state = next_state(Outcome.FAILED, exhausted=exhausted)
    delay = backoff.delay(job.attempts, random) if state is State.QUEUED else None
    return _settlement(hold, Outcome.FAILED, state=state, error=error, delay=delay)


def build_retry(
    hold: Hold, job: Job, *, backoff: Backoff, random: Random, delay: float | None = None, why: str | None = None
) -> Settlement:
    """Settle as a requested retry, or as a failure if no attempts are left."""
    if is_exhausted(job.attempts, job.max_attempts):
        error = why or f"retry requested, but attempt {job.attempts} was the last"
        return build_failure(hold, job, error, backoff=backoff, random=random)
    delay = backoff.delay(job.attempts, random) if delay is None else delay
    return _settlement(hold, Outcome.RETRIED, error=why, delay=delay)


def build_snooze(hold: Hold, delay: float) -> Settlement:
    return _settlement(hold, Outcome.SNOOZED, delay=delay)


def build_release(hold: Hold) -> Settlement:
    return _settlement(hold, Outcome.RELEASED)


def build_cancellation(hold: Hold, why: str | None = None) -> Settlement:
    return _settlement(hold, Outcome.CANCELLED, error=why)


def build_rejection(settlement: Settlement, reason: str) -> Settlement:
    """Settle as failed, because the user's table rejected the settlement. Final: the work may have been done."""
    error = f"the table rejected the outcome {settlement.outcome.value!r}: {reason}"
    if settlement.error is not None:
        error = f"{error}\n{settlement.error}"
    return _settlement(settlement.hold, Outcome.FAILED, state=State.FAILED, error=error)


def build_answer_settlement(hold: Hold, job: Job, answer: Answer, *, backoff: Backoff, random: Random) -> Settlement:
    """Return the settlement for an answer of the handler."""
    match answer:
        case Retry(delay=delay, why=why):
            return build_retry(hold, job, delay=delay, why=why, backoff=backoff, random=random)
        case Snooze(delay=delay):
            return build_snooze(hold, delay)
        case Fail(why=why):
            return build_failure(hold, job, why, final=True, backoff=backoff, random=random)
        case Cancel(why=why):
            return build_cancellation(hold, why)
        case _:
            raise TypeError(f"{answer!r} is not one of Retry, Snooze, Fail and Cancel")


def _format_timestamp(timestamp: datetime) -> str:
    return timestamp.astimezone(UTC).isoformat()


def _completion(hold: Hold, result: str | None) -> Settlement:
    """Build the settlement by position: the common case, so a fast one."""
    return _build_settlement(hold, Outcome.COMPLETED, State.COMPLETED, 0, None, None, result, result is None)


def _settlement(
    hold: Hold,
    outcome: Outcome,
    *,
    state: State | None = None,
    delay: float | None = None,
    error: str | None = None,
) -> Settlement:
    rule = RULES[outcome]
    reason = checks.optional(checks.error_text, "the reason", error)
    return _build_settlement(hold, outcome, rule.state if state is None else state, rule.attempts, delay, reason)
