"""The answer to "why is this job not running?"."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tenure.core.job import Job, State
from tenure.core.operations import Standing, Worker
from tenure.core.reasons import Reason, ReasonKind, reasons_of

Names = tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job is not running, or how it runs, at one moment of the store's clock.

    `verdict` says it in one line. `reasons` are all conditions that were looked at: first those that do not hold.
    """

    job: Job = field(repr=False)
    now: datetime
    verdict: str
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        """Return the verdict, and under it the reasons: those that do not hold with a minus."""
        return "\n".join([self.verdict, *(f"  {'+' if each.holds else '-'} {each}" for each in self.reasons)])


def explain(standing: Standing, workers: Sequence[Worker]) -> Explanation:
    """Explain a job by its standing and the workers that gave a sign of life."""
    return _explained(standing, reasons_of(standing, workers), "a worker")


def explain_row(standing: Standing, workers: Sequence[Worker] | None) -> Explanation:
    """Explain a row by its standing, and the workers of the registry, if there is one: else nobody knows of any."""
    known = next((each for each in workers or () if each.name == standing.job.worker), None)
    told = replace(standing, holder=known if standing.job.state is State.RUNNING else None)
    taker = "a worker" if workers is not None else "whoever claims"
    return _explained(told, reasons_of(told, workers, is_row=True), taker)


def _explained(standing: Standing, found: Sequence[Reason], taker: str) -> Explanation:
    reasons = sorted(found, key=lambda reason: reason.holds)
    return Explanation(
        job=standing.job, now=standing.now, verdict=_verdict(standing.job, reasons, taker), reasons=tuple(reasons)
    )


def asked_for_with(job: Job, workers: Sequence[Worker]) -> tuple[Names, Names]:
    """Return the queues and types that those workers claim from which take this job; without such, its own queue."""
    takers = [worker for worker in workers if worker.takes(job.queue, job.type)]
    if not takers:
        return (job.queue,), None
    return _together(worker.queues for worker in takers), _together(worker.types for worker in takers)


def _together(named: Iterable[Names]) -> Names:
    found: set[str] = set()
    for names in named:
        if names is None:
            return None
        found.update(names)
    return tuple(sorted(found))


def _verdict(job: Job, reasons: Sequence[Reason], taker: str) -> str:
    against = [reason for reason in reasons if not reason.holds]
    if against:
        how = "running, but" if job.state is State.RUNNING else "not running because"
        first, *others = against
        more = f" (and for {len(others)} more reason{'s' if len(others) > 1 else ''})" if others else ""
        return f"{how} {first.text}{more}"
    if job.state is State.RUNNING:
        return f"running: {next(reason.text for reason in reasons if reason.kind is ReasonKind.HELD)}"
    return f"queued, and the next claim of {taker} takes it"
