"""Explain why a job is not running."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tenure.core.filters import NameFilter
from tenure.core.job import Job, State
from tenure.core.operations import ClaimOutlook, WorkerInfo
from tenure.core.reasons import Reason, ReasonKind, list_reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job is not running, or which worker runs it, at the time `now` of the store's clock.

    `verdict` is a summary in one line. `reasons` lists all conditions that were checked; unmet conditions come first.
    """

    job: Job = field(repr=False)
    now: datetime
    verdict: str
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        """Return the verdict and, below it, the reasons: `-` marks an unmet condition, `+` a met one."""
        return "\n".join([self.verdict, *(f"  {'+' if each.holds else '-'} {each}" for each in self.reasons)])


def explain(outlook: ClaimOutlook, workers: Sequence[WorkerInfo]) -> Explanation:
    """Explain a job from its `ClaimOutlook` and the live workers."""
    return _build_explanation(outlook, list_reasons(outlook, workers), "the next claim of a worker")


def explain_row(outlook: ClaimOutlook, workers: Sequence[WorkerInfo] | None) -> Explanation:
    """Explain a row from its `ClaimOutlook` and the live workers; `workers` is None without a worker registry."""
    holder = next((each for each in workers or () if each.name == outlook.job.worker), None)
    with_holder = replace(outlook, holder=holder if outlook.job.state is State.RUNNING else None)
    next_claim = "the next claim of a worker" if workers is not None else "the next claim"
    return _build_explanation(with_holder, list_reasons(with_holder, workers, is_row=True), next_claim)


def _build_explanation(outlook: ClaimOutlook, found: Sequence[Reason], next_claim: str) -> Explanation:
    reasons = sorted(found, key=lambda reason: reason.holds)
    return Explanation(
        job=outlook.job, now=outlook.now, verdict=_verdict(outlook.job, reasons, next_claim), reasons=tuple(reasons)
    )


def claim_filters_for(job: Job, workers: Sequence[WorkerInfo]) -> tuple[NameFilter, NameFilter]:
    """Return the queues and types claimed by the workers that take this job; without such workers, the job's queue."""
    takers = [worker for worker in workers if worker.takes(job.queue, job.type)]
    if not takers:
        return (job.queue,), None
    return _union_of_names(worker.queues for worker in takers), _union_of_names(worker.types for worker in takers)


def _union_of_names(filters: Iterable[NameFilter]) -> NameFilter:
    found: set[str] = set()
    for names in filters:
        if names is None:
            return None
        found.update(names)
    return tuple(sorted(found))


def _verdict(job: Job, reasons: Sequence[Reason], next_claim: str) -> str:
    against = [reason for reason in reasons if not reason.holds]
    if against:
        start = "running, but" if job.state is State.RUNNING else "not running:"
        first, *others = against
        more = f" (and {len(others)} more reason{'s' if len(others) > 1 else ''})" if others else ""
        return f"{start} {first.text}{more}"
    if job.state is State.RUNNING:
        return f"running: {next(reason.text for reason in reasons if reason.kind is ReasonKind.HELD)}"
    return f"queued and due: {next_claim} takes it"
