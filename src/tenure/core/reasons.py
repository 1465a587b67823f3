"""Check the conditions of a claim for one job.

A reason is one condition and whether the condition holds. Its text can follow "not running:". The text never
contains the payload.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tenure.core.checks import EARLIEST
from tenure.core.durations import format_duration, format_timestamp
from tenure.core.error_summary import summarize_error
from tenure.core.job import Ending, Job, Outcome, State
from tenure.core.operations import MAX_AHEAD_COUNTED, ClaimOutlook, Move, WorkerInfo
from tenure.core.transitions import fails_on_next_crash, is_exhausted

STALLED_AFTER = 5.0
"""Seconds after which a worker with a blocked event loop or claimer is reported as stalled."""
MAX_NAMES_SHOWN = 5


class ReasonKind(StrEnum):
    """The condition that a reason describes."""

    FINISHED = "finished"
    CHOSEN = "chosen"
    PAUSED = "paused"
    DUE = "due"
    TAKERS = "takers"
    QUIET = "quiet"
    SLOTS = "slots"
    AHEAD = "ahead"
    HELD = "held"
    LEASE = "lease"
    HOLDER = "holder"
    CANCEL = "cancel"
    ATTEMPTS = "attempts"
    CRASHES = "crashes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A condition. If it does not hold, the job does not run, or its run has a problem.

    `remedy` tells the operator what to do, where an action can help.
    """

    kind: ReasonKind
    text: str
    holds: bool
    remedy: str | None = None

    def __str__(self) -> str:
        return self.text if self.remedy is None else f"{self.text}; {self.remedy}"


def list_reasons(outlook: ClaimOutlook, workers: Sequence[WorkerInfo] | None, *, is_row: bool = False) -> list[Reason]:
    """Return the checked conditions in order. `workers` are the live workers; None means that there is no registry.

    A row of a table has no queue to pause; instead, the `where` of the table must select the row.
    """
    job = outlook.job
    if job.state is State.QUEUED:
        first = _where_reason(outlook) if is_row else _pause_reason(outlook)
        return [first, _due_reason(outlook, is_row=is_row), *_taker_reasons(outlook, workers), *_budget_reasons(job)]
    if job.state is State.RUNNING:
        holder = [] if workers is None else _holder_reasons(outlook, workers, is_row=is_row)
        return [*_claim_reasons(outlook, is_row=is_row), *holder, *_budget_reasons(job)]
    return [_finished_reason(job, outlook.now, is_row=is_row)]


def _met(kind: ReasonKind, text: str) -> Reason:
    return Reason(kind=kind, text=text, holds=True)


def _unmet(kind: ReasonKind, text: str, remedy: str) -> Reason:
    return Reason(kind=kind, text=text, holds=False, remedy=remedy)


def _pause_reason(outlook: ClaimOutlook) -> Reason:
    queue = outlook.job.queue
    if not outlook.is_paused:
        return _met(ReasonKind.PAUSED, f"its queue {queue!r} is not paused")
    remedy = f"`tenure queues resume {shlex.quote(queue)}`"
    return _unmet(ReasonKind.PAUSED, f"its queue {queue!r} is paused", remedy)


def _where_reason(outlook: ClaimOutlook) -> Reason:
    if outlook.matches_where:
        return _met(ReasonKind.CHOSEN, "`where` selects it")
    return _unmet(
        ReasonKind.CHOSEN, "`where` does not select it", "change the row, or correct the `where` of the table"
    )


def _due_reason(outlook: ClaimOutlook, *, is_row: bool) -> Reason:
    job, now = outlook.job, outlook.now
    if job.run_at <= EARLIEST:
        return _met(ReasonKind.DUE, "it is due")
    if job.run_at <= now:
        return _met(ReasonKind.DUE, f"it has been due since {format_timestamp(job.run_at, now)}")
    cancel, retry = _command("cancel", job, is_row=is_row), _command("retry", job, is_row=is_row)
    return _unmet(
        ReasonKind.DUE,
        f"it is not due until {format_timestamp(job.run_at, now)}: {_delay_cause(job)}",
        f"wait; or run it now, with new attempts: {cancel}, then {retry}",
    )


def _command(verb: str, job: Job, *, is_row: bool) -> str:
    """Return the command that moves a job. For a row, the command must name the table."""
    return f"`tenure jobs {verb} {shlex.quote(job.id)}{_app_option(is_row=is_row)}`"


def _app_option(*, is_row: bool) -> str:
    return " --app MODULE:TABLE" if is_row else ""


def _delay_cause(job: Job) -> str:
    last = _last_ending(job)
    attempt = f"attempt {_count_of(job.attempts, job.max_attempts)}"
    if last is not None and last.outcome is Outcome.FAILED:
        return f"{attempt} failed{_error_suffix(last.error)}"
    if last is not None and last.outcome is Outcome.RETRIED:
        return f"{attempt} requested a retry{_error_suffix(last.error)}"
    if last is not None and last.outcome is Outcome.SNOOZED:
        return "its handler snoozed it"
    return "it is scheduled"


def _taker_reasons(outlook: ClaimOutlook, workers: Sequence[WorkerInfo] | None) -> list[Reason]:
    job, now = outlook.job, outlook.now
    is_takeable = outlook.matches_where and not outlook.is_paused and job.run_at <= now
    if workers is None:
        return [_ahead_reason(outlook.ahead, 0, "wait, or claim larger batches")] if is_takeable else []
    takers = [worker for worker in workers if worker.takes(job.queue, job.type)]
    reasons = [_takers_reason(takers, now) if takers else _no_takers_reason(job, workers)]
    stalled = [worker for worker in takers if worker.quiet_for > STALLED_AFTER]
    if stalled:
        reasons.append(_stalled_reason(stalled, holds=len(stalled) < len(takers)))
    if not is_takeable:
        return reasons
    # A stalled worker claims nothing, even with free slots.
    active = [worker for worker in takers if worker not in stalled] or takers
    free = sum(max(0, worker.concurrency - worker.holding) for worker in active)
    if takers:
        reasons.append(_slots_reason(free, sum(worker.concurrency for worker in active)))
    return [*reasons, _ahead_reason(outlook.ahead, free)]


def _takers_reason(takers: Sequence[WorkerInfo], now: datetime) -> Reason:
    number = "1 live worker takes" if len(takers) == 1 else f"{len(takers):,} live workers take"
    names = _format_names(worker.name for worker in takers)
    beat = _format_age(max(worker.beat_at for worker in takers), now)
    return _met(ReasonKind.TAKERS, f"{number} it: {names}; last heartbeat {beat}")


def _no_takers_reason(job: Job, workers: Sequence[WorkerInfo]) -> Reason:
    active = [worker for worker in workers if not worker.is_stopping]
    same_type = [worker for worker in active if worker.types is None or job.type in worker.types]
    if not active:
        text = (
            "no live workers"
            if not workers
            else f"all live workers are stopping: {_format_names(w.name for w in workers)}"
        )
        remedy = "start one: `tenure work` (`tenure exec` and claims by hand send no heartbeats and do not count)"
    elif not same_type:
        types = {type for worker in active for type in worker.types or ()}
        text = f"no live worker takes its type {job.type!r}; they take {_format_names(types)}"
        remedy = "start a worker that has this task, or import the task's module: `tenure work --import MODULE`"
    else:
        queues = {queue for worker in same_type for queue in worker.queues or ()}
        text = f"no live worker takes its type from its queue {job.queue!r}; they take it from {_format_names(queues)}"
        remedy = "start a worker for this queue, or for all queues"
    return _unmet(ReasonKind.TAKERS, text, remedy)


def _stalled_reason(stalled: Sequence[WorkerInfo], *, holds: bool) -> Reason:
    names = _format_names(worker.name for worker in stalled)
    longest = format_duration(max(worker.quiet_for for worker in stalled))
    return Reason(
        kind=ReasonKind.QUIET,
        text=f"the event loop or claim loop of {names} has been blocked for {longest}",
        holds=holds,
        remedy="find the cause: a blocking call in an async task, or a slow store",
    )


def _slots_reason(free: int, slots: int) -> Reason:
    if free:
        return _met(ReasonKind.SLOTS, f"its workers have {free:,} of {slots:,} slots free")
    return _unmet(
        ReasonKind.SLOTS,
        f"all {slots:,} slots of its workers are busy",
        "wait, start another worker, or raise the concurrency",
    )


def _ahead_reason(ahead: int, free: int, remedy: str = "wait, or start more workers") -> Reason:
    if ahead == 0:
        return _met(ReasonKind.AHEAD, "no due job is ahead of it")
    number = f"{ahead:,} or more" if ahead >= MAX_AHEAD_COUNTED else f"{ahead:,}"
    text = f"{number} due job{' is' if ahead == 1 else 's are'} ahead of it"
    if ahead < free:
        return _met(ReasonKind.AHEAD, f"{text}, with enough free slots for all")
    return _unmet(ReasonKind.AHEAD, text, remedy)


def _claim_reasons(outlook: ClaimOutlook, *, is_row: bool) -> list[Reason]:
    job, now, holder = outlook.job, outlook.now, outlook.holder
    location = "" if holder is None else f" (host {holder.host!r}, pid {holder.pid})"
    since = format_timestamp(job.started_at or now, now)
    name = "an unknown holder" if job.worker is None else f"worker {job.worker!r}"
    held = _met(ReasonKind.HELD, f"{name}{location} has held it since {since}, under fence {job.fence:,}")
    lease = _lease_reason(job.leased_until, now, is_row=is_row)
    return [held, lease, *([_cancel_reason(job, now)] if job.cancel_requested else [])]


def _lease_reason(leased_until: datetime | None, now: datetime, *, is_row: bool) -> Reason:
    if leased_until is None:
        return _unmet(
            ReasonKind.LEASE,
            "it has no lease, so it never expires: its state was set to running without a claim",
            "give such rows a lease with `migrate(adopt_running_after=600)`",
        )
    expiry = format_timestamp(leased_until, now)
    if leased_until > now:
        return _met(ReasonKind.LEASE, f"its lease is valid until {expiry}")
    return _unmet(
        ReasonKind.LEASE,
        f"its lease expired at {expiry}, and no worker has reaped it yet",
        f"the next claim reaps it; to reap it now: `tenure reap{_app_option(is_row=is_row)}`",
    )


def _cancel_reason(job: Job, now: datetime) -> Reason:
    request = _cancel_request(job)
    when = (
        ""
        if request is None
        else f" at {format_timestamp(request.ended_at, now)}{_error_suffix(_operator_reason(request))}"
    )
    return _unmet(
        ReasonKind.CANCEL,
        f"a cancel was requested{when}",
        "the holder receives the request when it next extends the lease, and must stop by itself",
    )


def _holder_reasons(outlook: ClaimOutlook, workers: Sequence[WorkerInfo], *, is_row: bool) -> list[Reason]:
    holder, now = outlook.holder, outlook.now
    if holder is None:
        text = "its worker is not in the registry: programs that claim by hand send no heartbeats"
        return [_met(ReasonKind.HOLDER, text)]
    if holder.name not in {worker.name for worker in workers}:
        return [_no_heartbeat_reason(holder, now, is_row=is_row)]
    alive = _met(ReasonKind.HOLDER, f"its worker sent a heartbeat {_format_age(holder.beat_at, now)}")
    return [alive, _stalled_reason([holder], holds=False)] if holder.quiet_for > STALLED_AFTER else [alive]


def _no_heartbeat_reason(holder: WorkerInfo, now: datetime, *, is_row: bool) -> Reason:
    return _unmet(
        ReasonKind.HOLDER,
        f"its worker sends no heartbeats; the last one was at {format_timestamp(holder.beat_at, now)}",
        "wait until the lease expires; or, if you know that the worker is dead, reap all its jobs: "
        f"`tenure reap --worker {shlex.quote(holder.name)}{_app_option(is_row=is_row)}`",
    )


def _budget_reasons(job: Job) -> list[Reason]:
    which, number = ("the next", job.attempts + 1) if job.state is State.QUEUED else ("this", job.attempts)
    attempt = _met(ReasonKind.ATTEMPTS, f"{which} is attempt {_count_of(number, job.max_attempts)}")
    if not job.crashes:
        return [attempt]
    text = f"it has crashed before ({_count_of(job.crashes, job.max_crashes)})"
    if fails_on_next_crash(job):
        text += "; the next crash fails it, so a worker runs it in isolation, while no other job runs there"
    return [attempt, _met(ReasonKind.CRASHES, text)]


def _finished_reason(job: Job, now: datetime, *, is_row: bool) -> Reason:
    ended = f"at {format_timestamp(job.finished_at or now, now)}"
    if job.state is State.COMPLETED:
        by = "" if job.worker is None else f" by worker {job.worker!r}"
        remedy = "change its state in the table" if is_row else "enqueue a new job"
        return _unmet(ReasonKind.FINISHED, f"it was completed {ended}{by}", f"to run it again, {remedy}")
    is_failed = job.state is State.FAILED
    text = f"it failed {ended}{_failure_cause(job)}" if is_failed else f"it was cancelled {ended}{_cancel_origin(job)}"
    remedy = f"{_command('retry', job, is_row=is_row)} queues it again, with new attempts"
    return _unmet(ReasonKind.FINISHED, text, remedy)


def _failure_cause(job: Job) -> str:
    last = _last_ending(job)
    if last is None:
        return ""
    if last.outcome is Outcome.EXPIRED and is_exhausted(job.crashes, job.max_crashes):
        why = f"crash limit reached ({_count_of(job.crashes, job.max_crashes)})"
    elif is_exhausted(job.attempts, job.max_attempts):
        why = f"no attempts left ({_count_of(job.attempts, job.max_attempts)})"
    else:
        why = f"attempt {_count_of(job.attempts, job.max_attempts)} failed for good"
    return f": {why}{_error_suffix(last.error)}"


def _cancel_origin(job: Job) -> str:
    if (request := _cancel_request(job)) is not None:
        return f" by an operator{_error_suffix(_operator_reason(request))}"
    last = _last_ending(job)
    return (
        f" by its handler{_error_suffix(last.error)}" if last is not None and last.outcome is Outcome.CANCELLED else ""
    )


def _cancel_request(job: Job) -> Ending | None:
    """Return the history line of an operator's cancel since the last claim, if there is one."""
    requests = (each for each in reversed(job.history) if each.outcome is Outcome.OPERATOR and each.fence == job.fence)
    return next((each for each in requests if str(each.error).startswith(Move.CANCEL)), None)


def _operator_reason(request: Ending) -> str | None:
    """Return the operator's reason. The history line begins with the name of the move."""
    return str(request.error).removeprefix(Move.CANCEL).removeprefix(": ") or None


def _last_ending(job: Job) -> Ending | None:
    return job.history[-1] if job.history else None


def _error_suffix(error: str | None) -> str:
    return "" if error is None else f": {summarize_error(error)}"


def _count_of(number: int, limit: int | None) -> str:
    return f"{number:,}" if limit is None else f"{number:,} of {limit:,}"


def _format_age(timestamp: datetime, now: datetime) -> str:
    # The store's clock may have been set back.
    return f"{format_duration(max(0.0, (now - timestamp).total_seconds()))} ago"


def _format_names(names: Iterable[str]) -> str:
    """Format the first few names, and the number of the rest."""
    found = sorted(names)
    text = ", ".join(repr(name) for name in found[:MAX_NAMES_SHOWN])
    more = f" and {len(found) - MAX_NAMES_SHOWN:,} more" if len(found) > MAX_NAMES_SHOWN else ""
    return f"{text}{more}" or "nothing"
