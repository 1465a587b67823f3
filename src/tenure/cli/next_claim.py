"""Take the next job for a command: one that is due, or one that comes free."""

from dataclasses import dataclass
from typing import Any

import click

from tenure.cli.signals import Signals
from tenure.client.claim import Claim
from tenure.client.claims import Claims
from tenure.client.jobs import Jobs
from tenure.client.keeper import DRIFT, ticks
from tenure.client.row_claim import TableClaims
from tenure.client.table import Table
from tenure.core.operations import Stats

SLICE = 0.5
"""Seconds of waiting at a time, so that a signal is heard; a claim that is under way is never broken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs, and for how long to wait for one. A wait of None is for what others hold, no longer than a lease."""

    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    lease: float
    wait: float | None
    worker: str | None

    def may_come(self, stats: Stats) -> bool:
        """Tell whether there is a job that somebody holds, who may be dead, or that came due just now."""
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
    """Claim from a Jobs or a table; by default for the lease of the table."""
    if isinstance(source, Jobs):
        seconds = 60.0 if lease is None else lease
        return source.claim(queues=queues, types=types, limit=limit, lease=seconds, wait=wait, worker=worker)
    if queues or types:
        raise click.UsageError("--queue and --type choose jobs, and a table has neither; leave them out")
    return source.claim(limit=limit, lease=lease, wait=wait, worker=worker)


def take(jobs: Jobs | Table[Any], wanted: Wanted, signals: Signals) -> Claim | None:
    """Return a claim, or None if nothing is due, or a signal came first."""
    # A holder that died before this had no more than a lease left, by a clock that may be slower.
    ends_at = ticks() + (wanted.lease * (1 + DRIFT) if wanted.wait is None else wanted.wait)
    pause = 0.0
    while not signals.received:
        claims = claims_from(
            jobs, queues=wanted.queues, types=wanted.types, lease=wanted.lease, wait=pause, worker=wanted.worker
        )
        if claims:
            return claims[0]
        left = ends_at - ticks()
        if left <= 0 or (wanted.wait is None and not wanted.may_come(jobs.stats())):
            return None
        pause = min(left, SLICE)
    return None
