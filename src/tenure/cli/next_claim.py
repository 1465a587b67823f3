"""Claim the next job for `tenure exec`: a due job, or one whose lease expires."""

from dataclasses import dataclass
from typing import Any

import click

from tenure.cli.signals import Signals
from tenure.client.claim import Claim
from tenure.client.claims import Claims
from tenure.client.jobs import Jobs
from tenure.client.keeper import CLOCK_DRIFT_MARGIN, ticks
from tenure.client.row_claim import TableClaims
from tenure.client.table import Table
from tenure.core.operations import Stats

WAIT_SLICE = 0.5
"""Seconds to wait in one claim request, so that a signal is handled soon. A request under way is never aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOptions:
    """Which jobs to claim, and how long to wait. With `wait=None`, wait up to one lease if other holders have jobs."""

    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    lease: float
    wait: float | None
    worker: str | None

    def may_become_due(self, stats: Stats) -> bool:
        """Whether a job is running, whose holder may be dead, or has just become due."""
        return any(
            row.running or row.due
            for row in stats.rows
            if (self.queues is None or row.queue in self.queues)
            and (self.types is None or row.type in self.types)
            and row.queue not in stats.paused
        )


def claims_from(
    source: Jobs | Table[Any],
    *,
    queues: tuple[str, ...] | None,
    types: tuple[str, ...] | None,
    limit: int = 1,
    lease: float | None,
    wait: float,
    worker: str | None,
) -> Claims | TableClaims[Any]:
    """Claim from a Jobs or a Table. The default lease of a Table is its own."""
    if isinstance(source, Jobs):
        seconds = 60.0 if lease is None else lease
        return source.claim(queues=queues, types=types, limit=limit, lease=seconds, wait=wait, worker=worker)
    if queues or types:
        raise click.UsageError("--queue and --type cannot be used with a Table")
    return source.claim(limit=limit, lease=lease, wait=wait, worker=worker)


def claim_next(jobs: Jobs | Table[Any], options: ClaimOptions, signals: Signals) -> Claim | None:
    """Return a claim; None if no job is due or a signal arrives."""
    # The lease of a holder that has died already expires within one lease, plus the drift of a slower clock.
    ends_at = ticks() + (options.lease * (1 + CLOCK_DRIFT_MARGIN) if options.wait is None else options.wait)
    pause = 0.0
    while not signals.received:
        claims = claims_from(
            jobs, queues=options.queues, types=options.types, lease=options.lease, wait=pause, worker=options.worker
        )
        if claims:
            return claims[0]
        left = ends_at - ticks()
        if left <= 0 or (options.wait is None and not options.may_become_due(jobs.stats())):
            return None
        pause = min(left, WAIT_SLICE)
    return None
