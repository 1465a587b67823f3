"""Filters of the public API that select jobs or rows."""

from collections.abc import Iterable
from typing import Literal, TypedDict, cast

from tenure.core import checks
from tenure.core.checks import Seconds
from tenure.core.job import State
from tenure.core.operations import LARGEST_BATCH, Query

NameOrNames = str | Iterable[str]
NameFilter = tuple[str, ...] | None
"""Names of queues or types; None selects all."""
StateName = State | Literal["queued", "running", "completed", "failed", "cancelled"]
States = StateName | Iterable[StateName]


class Filters(TypedDict, total=False):
    """Filters for jobs. A job must match all of them.

    `error` is a substring of the job's last error. `since` is the greatest age in seconds, counted from the time when
    the job finished, or was enqueued if it has not finished. `due=True` selects queued jobs that are due, `due=False`
    those that are scheduled for later.
    """

    state: States
    queue: NameOrNames
    type: NameOrNames
    key: str
    worker: str
    error: str
    since: Seconds
    attempts_over: int
    due: bool
    newest_first: bool


class RowFilters(TypedDict, total=False):
    """Filters for the rows of a table. All rows have the same queue and type, and no job key.

    `error` is a substring of the row's last error. `since` is the greatest age in seconds, counted from the time when
    the row finished, or was created if it has not finished.
    """

    state: States
    worker: str
    error: str
    since: Seconds
    attempts_over: int
    due: bool
    newest_first: bool


def build_query(where: str, filters: Filters, *other_options: str) -> Query:
    """Build a query from filters; raise `ConfigurationError` for an unknown filter or an invalid value.

    `other_options` are further options of the caller; the error suggests them as well.
    """
    checks.reject_unknown(where, filters, [*Filters.__annotations__, *other_options])
    return _build(filters)


def build_row_query(where: str, filters: RowFilters, *other_options: str) -> Query:
    """Build a query from the filters of a table."""
    checks.reject_unknown(where, filters, [*RowFilters.__annotations__, *other_options])
    return _build(cast("Filters", filters))


def _build(filters: Filters) -> Query:
    return Query(
        states=parse_states(filters.get("state")),
        queues=checks.optional(checks.names, "queue", filters.get("queue")),
        types=checks.optional(checks.names, "type", filters.get("type")),
        key=checks.optional(checks.name, "key", filters.get("key")),
        worker=checks.optional(checks.name, "worker", filters.get("worker")),
        error=filters.get("error"),
        since=checks.optional(checks.seconds, "since", filters.get("since")),
        attempts_over=checks.optional(checks.count, "attempts_over", filters.get("attempts_over")),
        due=checks.optional(checks.boolean, "due", filters.get("due")),
        newest_first=checks.boolean("newest_first", filters.get("newest_first", True)),
        limit=LARGEST_BATCH,
    )


def has_condition(filters: Filters | RowFilters) -> bool:
    """Return whether the filters exclude any job. None is no filter; `newest_first` is only an order."""
    return any(value is not None for name, value in filters.items() if name != "newest_first")


def parse_states(value: States | None) -> frozenset[State] | None:
    """Return the states with these names, or None for None. A string names one state."""
    found = checks.optional(checks.names, "state", value)
    return None if found is None else frozenset(State(checks.choice("state", each, list(State))) for each in found)
