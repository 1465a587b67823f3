"""Which jobs a verb acts on: those that are named, all or none, or those that match."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from tenure.core.filters import Filters
from tenure.core.job import State
from tenure.core.operations import LARGEST_BATCH, Query

if TYPE_CHECKING:
    from tenure.client.jobs import Jobs
    from tenure.client.table import Table
    from tenure.core.job import Job

SHOWN = 10
"""How many of them are kept to be shown."""


@dataclass(slots=True)
class Chosen:
    """Ids, of which there may be very many, and the first of the jobs."""

    ids: list[str] = field(default_factory=list)
    first: "list[Job]" = field(default_factory=list)

    def add(self, job: "Job") -> None:
        self.ids.append(job.id)
        if len(self.first) < SHOWN:
            self.first.append(job)


def found(store: "Jobs | Table[Any]", filters: Filters) -> "Iterator[Job]":
    """Yield what matches; a condition that a table has not, it refuses."""
    return store.find(**filters)  # type: ignore[misc]


def matching(store: "Jobs | Table[Any]", filters: Filters) -> Chosen:
    """Return the jobs that match now, the oldest first: what matches later, as by being moved, is not of them."""
    chosen = Chosen()
    wanted: Filters = {**filters, "newest_first": False}
    for job in found(store, wanted):
        chosen.add(job)
    return chosen


def named(store: "Jobs | Table[Any]", ids: Sequence[str]) -> "list[Job]":
    """Return the jobs of these ids, in their order; refuse all if there is not one of each."""
    known: dict[str, Job] = {}
    for start in range(0, len(ids), LARGEST_BATCH):
        part = tuple(ids[start : start + LARGEST_BATCH])
        known.update({job.id: job for job in store._backend.find(Query(ids=part, limit=LARGEST_BATCH)).jobs})
    for each in ids:
        if each not in known:
            nothing = "; nothing was done" if len(ids) > 1 else ""
            raise click.UsageError(f"there is no job {each!r}{nothing}; `tenure jobs list` shows what there is")
    return [known[each] for each in dict.fromkeys(ids)]


def refuse_unless(states: frozenset[State], done: str, jobs: "Sequence[Job]") -> None:
    """Refuse all if one of them is in another state."""
    for job in jobs:
        if job.state not in states:
            nothing = "; nothing was done" if len(jobs) > 1 else ""
            raise click.UsageError(
                f"job {job.id!r} is {job.state}, and only {' or '.join(sorted(states))} ones can be {done}{nothing}"
            )
