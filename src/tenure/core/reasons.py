"""Why a job is not running: the conditions of a claim, looked at for one job.

A reason is one condition, and whether it holds. Its text is a clause that can follow "because". It never shows the
payload.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tenure.core.checks import EARLIEST
from tenure.core.durations import shown_duration, shown_moment
from tenure.core.error_summary import headline
from tenure.core.job import Ending, Job, Outcome, State
from tenure.core.operations import MOST_AHEAD, Move, Standing, Worker
from tenure.core.transitions import is_last_chance, is_spent

QUIET = 5.0
"""Seconds for which a worker's claim loop may stand still before that is told."""
MOST_NAMED = 5


class ReasonKind(StrEnum):
    """What a reason is about."""

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
    """A condition: one that does not hold keeps the job from running, or from running well.

    `remedy` is what to do about it, if anything can be done.
    """

    kind: ReasonKind
    text: str
    holds: bool
    remedy: str | None = None

    def __str__(self) -> str:
        return self.text if self.remedy is None else f"{self.text}; {self.remedy}"


def reasons_of(standing: Standing, workers: Sequence[Worker] | None, *, is_row: bool = False) -> list[Reason]:
    """Return what was looked at, in that order; `workers` are those that gave a sign of life, None without a registry.

    A row of a table is in no queue that could be paused, and `where` has to choose it.
    """
    job = standing.job
    if job.state is State.QUEUED:
        first = _chosen(standing) if is_row else _paused(standing)
        return [first, _due(standing, is_row=is_row), *_of_the_takers(standing, workers), *_of_the_budget(job)]
    if job.state is State.RUNNING:
        holder = [] if workers is None else _of_the_holder(standing, workers, is_row=is_row)
        return [*_of_the_claim(standing, is_row=is_row), *holder, *_of_the_budget(job)]
    return [_finished(job, standing.now, is_row=is_row)]


def _met(kind: ReasonKind, text: str) -> Reason:
    return Reason(kind=kind, text=text, holds=True)


def _unmet(kind: ReasonKind, text: str, remedy: str) -> Reason:
    return Reason(kind=kind, text=text, holds=False, remedy=remedy)


def _paused(standing: Standing) -> Reason:
    queue = standing.job.queue
    if not standing.is_paused:
        return _met(ReasonKind.PAUSED, f"its queue {queue!r} is not paused")
    remedy = f"`tenure queues resume {shlex.quote(queue)}`"
    return _unmet(ReasonKind.PAUSED, f"its queue {queue!r} is paused", remedy)


def _chosen(standing: Standing) -> Reason:
    if standing.is_chosen:
        return _met(ReasonKind.CHOSEN, "`where` chooses it")
    return _unmet(
        ReasonKind.CHOSEN, "`where` does not choose it", "change the row, or the `where` of the table if that is wrong"
    )


def _due(standing: Standing, *, is_row: bool) -> Reason:
    job, now = standing.job, standing.now
    if job.run_at <= EARLIEST:
        return _met(ReasonKind.DUE, "it is due")
    if job.run_at <= now:
        return _met(ReasonKind.DUE, f"it has been due since {shown_moment(job.run_at, now)}")
    cancel, retry = _command("cancel", job, is_row=is_row), _command("retry", job, is_row=is_row)
    return _unmet(
        ReasonKind.DUE,
        f"it is not due until {shown_moment(job.run_at, now)}: {_why_later(job)}",
        f"wait; or run it now, with fresh attempts: {cancel}, then {retry}",
    )


def _command(verb: str, job: Job, *, is_row: bool) -> str:
    """Return what moves a job; a row is moved by its table, which the command has to name."""
    return f"`tenure jobs {verb} {shlex.quote(job.id)}{_place(is_row=is_row)}`"


def _place(*, is_row: bool) -> str:
    return " --app MODULE:TABLE" if is_row else ""


def _why_later(job: Job) -> str:
    last = _last(job)
    attempt = f"attempt {_of(job.attempts, job.max_attempts)}"
    if last is not None and last.outcome is Outcome.FAILED:
        return f"{attempt} failed{_said(last.error)}"
    if last is not None and last.outcome is Outcome.RETRIED:
        return f"{attempt} asked to be tried again{_said(last.error)}"
    if last is not None and last.outcome is Outcome.SNOOZED:
        return "its handler snoozed it"
    return "it is scheduled"


def _of_the_takers(standing: Standing, workers: Sequence[Worker] | None) -> list[Reason]:
    job, now = standing.job, standing.now
    is_takeable = standing.is_chosen and not standing.is_paused and job.run_at <= now
    if workers is None:
        return [_ahead(standing.ahead, 0, "wait, or claim more at a time")] if is_takeable else []
    takers = [worker for worker in workers if worker.takes(job.queue, job.type)]
    reasons = [_taken_by(takers, now) if takers else _taken_by_nobody(job, workers)]
    still = [worker for worker in takers if worker.quiet_for > QUIET]
    if still:
        reasons.append(_quiet(still, holds=len(still) < len(takers)))
    if not is_takeable:
        return reasons
    # One that stands still claims nothing, whatever slots it has.
    moving = [worker for worker in takers if worker not in still] or takers
    free = sum(max(0, worker.concurrency - worker.holding) for worker in moving)
    if takers:
        reasons.append(_slots(free, sum(worker.concurrency for worker in moving)))
    return [*reasons, _ahead(standing.ahead, free)]


def _taken_by(takers: Sequence[Worker], now: datetime) -> Reason:
    number = "1 live worker takes" if len(takers) == 1 else f"{len(takers):,} live workers take"
    names = _named(worker.name for worker in takers)
    beat = _ago(max(worker.beat_at for worker in takers), now)
    return _met(ReasonKind.TAKERS, f"{number} it: {names}; last sign of life {beat}")


def _taken_by_nobody(job: Job, workers: Sequence[Worker]) -> Reason:
    staying = [worker for worker in workers if not worker.is_stopping]
    of_the_type = [worker for worker in staying if worker.types is None or job.type in worker.types]
    if not staying:
        text = "no worker is alive" if not workers else f"every live worker stops: {_named(w.name for w in workers)}"
        remedy = "start one: `tenure work`; `tenure exec` and claims by hand do not count, they give no sign of life"
    elif not of_the_type:
        types = {type for worker in staying for type in worker.types or ()}
        text = f"no live worker takes its type {job.type!r}; they take {_named(types)}"
        remedy = "start a worker that has this task, or name the module of the task to yours: `tenure work --import`"
    else:
        queues = {queue for worker in of_the_type for queue in worker.queues or ()}
        text = f"no live worker takes its type from its queue {job.queue!r}; they take it from {_named(queues)}"
        remedy = "start a worker that takes this queue, or all queues"
    return _unmet(ReasonKind.TAKERS, text, remedy)


def _quiet(still: Sequence[Worker], *, holds: bool) -> Reason:
    names = _named(worker.name for worker in still)
    longest = shown_duration(max(worker.quiet_for for worker in still))
    return Reason(
        kind=ReasonKind.QUIET,
        text=f"the event loop or the claims of {names} have stood still for {longest}",
        holds=holds,
        remedy="see what holds it up: a call that blocks in an async task, or a store that is slow",
    )


def _slots(free: int, slots: int) -> Reason:
    if free:
        return _met(ReasonKind.SLOTS, f"those that take it have {free:,} of {slots:,} slots free")
    return _unmet(
        ReasonKind.SLOTS,
        f"all slots of those that take it ({slots:,}) are busy",
        "wait, or start another worker, or one with a higher concurrency",
    )


def _ahead(ahead: int, free: int, remedy: str = "wait, or start more workers") -> Reason:
    if ahead == 0:
        return _met(ReasonKind.AHEAD, "no due job is ahead of it")
    number = f"{ahead:,} or more" if ahead >= MOST_AHEAD else f"{ahead:,}"
    text = f"{number} due job{' is' if ahead == 1 else 's are'} ahead of it"
    if ahead < free:
        return _met(ReasonKind.AHEAD, f"{text}, and there are slots for all")
    return _unmet(ReasonKind.AHEAD, text, remedy)


def _of_the_claim(standing: Standing, *, is_row: bool) -> list[Reason]:
    job, now, holder = standing.job, standing.now, standing.holder
    place = "" if holder is None else f" (host {holder.host!r}, pid {holder.pid})"
    since = shown_moment(job.started_at or now, now)
    who = "somebody unknown" if job.worker is None else f"worker {job.worker!r}"
    held = _met(ReasonKind.HELD, f"{who}{place} has held it since {since}, under fence {job.fence:,}")
    lease = _lease(job.leased_until, now, is_row=is_row)
    return [held, lease, *([_cancel(job, now)] if job.cancel_requested else [])]


def _lease(leased_until: datetime | None, now: datetime, *, is_row: bool) -> Reason:
    if leased_until is None:
        return _unmet(
            ReasonKind.LEASE,
            "it has no lease, so it never runs out: something else than a claim made it running",
            "give such rows a lease with `migrate(adopt_running_after=600)`",
        )
    shown = shown_moment(leased_until, now)
    if leased_until > now:
        return _met(ReasonKind.LEASE, f"its lease goes on until {shown}")
    return _unmet(
        ReasonKind.LEASE,
        f"its lease ran out at {shown}, and nobody has looked since",
        f"the next claim takes it back; `tenure reap{_place(is_row=is_row)}` does that now",
    )


def _cancel(job: Job, now: datetime) -> Reason:
    asked = _asked_to_cancel(job)
    when = "" if asked is None else f" at {shown_moment(asked.ended_at, now)}{_said(_reason_of(asked))}"
    return _unmet(
        ReasonKind.CANCEL,
        f"a cancel was asked for{when}",
        "its holder is told when it next prolongs the lease, and has to stop by itself",
    )


def _of_the_holder(standing: Standing, workers: Sequence[Worker], *, is_row: bool) -> list[Reason]:
    holder, now = standing.holder, standing.now
    if holder is None:
        text = "its worker is not in the registry: programs that claim by hand give no sign of life"
        return [_met(ReasonKind.HOLDER, text)]
    if holder.name not in {worker.name for worker in workers}:
        return [_silent(holder, now, is_row=is_row)]
    alive = _met(ReasonKind.HOLDER, f"its worker gave a sign of life {_ago(holder.beat_at, now)}")
    return [alive, _quiet([holder], holds=False)] if holder.quiet_for > QUIET else [alive]


def _silent(holder: Worker, now: datetime, *, is_row: bool) -> Reason:
    return _unmet(
        ReasonKind.HOLDER,
        f"its worker has fallen silent; its last sign of life was at {shown_moment(holder.beat_at, now)}",
        "wait for the lease to run out; or, if you know that it is dead, take back all that it holds: "
        f"`tenure reap --worker {shlex.quote(holder.name)}{_place(is_row=is_row)}`",
    )


def _of_the_budget(job: Job) -> list[Reason]:
    which, number = ("the next", job.attempts + 1) if job.state is State.QUEUED else ("this", job.attempts)
    attempt = _met(ReasonKind.ATTEMPTS, f"{which} is attempt {_of(number, job.max_attempts)}")
    if not job.crashes:
        return [attempt]
    text = f"it has crashed before ({_of(job.crashes, job.max_crashes)})"
    if is_last_chance(job):
        text += "; the next crash fails it, so a worker runs it alone, when nothing else runs there"
    return [attempt, _met(ReasonKind.CRASHES, text)]


def _finished(job: Job, now: datetime, *, is_row: bool) -> Reason:
    ended = f"at {shown_moment(job.finished_at or now, now)}"
    if job.state is State.COMPLETED:
        by = "" if job.worker is None else f" by worker {job.worker!r}"
        remedy = "a completed row stays so; change its state yourself" if is_row else "enqueue it anew"
        return _unmet(ReasonKind.FINISHED, f"it was completed {ended}{by}", f"{remedy} if it is to run again")
    is_failed = job.state is State.FAILED
    text = f"it failed {ended}{_why_failed(job)}" if is_failed else f"it was cancelled {ended}{_who_cancelled(job)}"
    remedy = f"{_command('retry', job, is_row=is_row)} queues it again, with fresh attempts"
    return _unmet(ReasonKind.FINISHED, text, remedy)


def _why_failed(job: Job) -> str:
    last = _last(job)
    if last is None:
        return ""
    if last.outcome is Outcome.EXPIRED and is_spent(job.crashes, job.max_crashes):
        why = f"crashes are spent ({_of(job.crashes, job.max_crashes)})"
    elif is_spent(job.attempts, job.max_attempts):
        why = f"attempts are spent ({_of(job.attempts, job.max_attempts)})"
    else:
        why = f"it was given up at attempt {_of(job.attempts, job.max_attempts)}"
    return f": {why}{_said(last.error)}"


def _who_cancelled(job: Job) -> str:
    if (asked := _asked_to_cancel(job)) is not None:
        return f" by an operator{_said(_reason_of(asked))}"
    last = _last(job)
    return f" by its handler{_said(last.error)}" if last is not None and last.outcome is Outcome.CANCELLED else ""


def _asked_to_cancel(job: Job) -> Ending | None:
    """Return where the history tells of an operator's cancel since the last claim."""
    asked = (each for each in reversed(job.history) if each.outcome is Outcome.OPERATOR and each.fence == job.fence)
    return next((each for each in asked if str(each.error).startswith(Move.CANCEL)), None)


def _reason_of(asked: Ending) -> str | None:
    """Return the reason in an operator's note, which begins with the move."""
    return str(asked.error).removeprefix(Move.CANCEL).removeprefix(": ") or None


def _last(job: Job) -> Ending | None:
    return job.history[-1] if job.history else None


def _said(error: str | None) -> str:
    return "" if error is None else f": {headline(error)}"


def _of(number: int, most: int | None) -> str:
    return f"{number:,}" if most is None else f"{number:,} of {most:,}"


def _ago(moment: datetime, now: datetime) -> str:
    # Not below zero, should the clock have been set back.
    return f"{shown_duration(max(0.0, (now - moment).total_seconds()))} ago"


def _named(names: Iterable[str]) -> str:
    """Return a few of these names, and how many there are beside."""
    found = sorted(names)
    shown = ", ".join(repr(name) for name in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
    return f"{shown}{more}" or "nothing"
