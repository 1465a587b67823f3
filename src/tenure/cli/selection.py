"""Select the jobs for a command: by id, all or none, or by filters."""

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

MAX_SHOWN = 10
"""Number of selected jobs kept for display."""


@dataclass(slots=True)
class Selection:
    """The ids of the selected jobs, possibly very many, and the first few jobs."""

    ids: list[str] = field(default_factory=list)
    first: "list[Job]" = field(default_factory=list)

    def add(self, job: "Job") -> None:
        self.ids.append(job.id)
        if len(self.first) < MAX_SHOWN:
            self.first.append(job)


def find_matching(store: "Jobs | Table[Any]", filters: Filters) -> "Iterator[Job]":
    """Yield the matching jobs. A Table rejects the filters that it does not have, such as queue."""
    return store.find(**filters)  # type: ignore[misc]


def select_matching(store: "Jobs | Table[Any]", filters: Filters) -> Selection:
    """Select the jobs that match now, oldest first. The ids are fixed before any job is moved."""
    chosen = Selection()
    wanted: Filters = {**filters, "newest_first": False}
    for job in find_matching(store, wanted):
        chosen.add(job)
    return chosen


def get_jobs(store: "Jobs | Table[Any]", ids: Sequence[str]) -> "list[Job]":
    """Return the jobs with these ids, in this order. Raise if any id is unknown."""
    known: dict[str, Job] = {}
    for start in range(0, len(ids), LARGEST_BATCH):
        part = tuple(ids[start : start + LARGEST_BATCH])
        known.update({job.id: job for job in store._backend.find(Query(ids=part, limit=LARGEST_BATCH)).jobs})
    for each in ids:
        if each not in known:
            nothing = "; nothing was done" if len(ids) > 1 else ""
            raise click.UsageError(f"job {each!r} not found{nothing}; list jobs with `tenure jobs list`")
    return [known[each] for each in dict.fromkeys(ids)]


def require_state(states: frozenset[State], done: str, jobs: "Sequence[Job]") -> None:
    """Raise if any job is in another state."""
    for job in jobs:
        if job.state not in states:
            nothing = "; nothing was done" if len(jobs) > 1 else ""
            raise click.UsageError(
                f"job {job.id!r} is {job.state}; only {' or '.join(sorted(states))} jobs can be {done}{nothing}"
            )
