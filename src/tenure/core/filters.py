"""The conditions by which jobs are chosen, in the words of the public surface."""

from collections.abc import Iterable
from typing import Literal, TypedDict, cast

from tenure.core import checks
from tenure.core.checks import Seconds
from tenure.core.job import State
from tenure.core.operations import LARGEST_BATCH, Query

Names = str | Iterable[str]
StateName = State | Literal["queued", "running", "completed", "failed", "cancelled"]
States = StateName | Iterable[StateName]


class Filters(TypedDict, total=False):
    """Every condition that is given must hold.

    `error` is part of the job's last error. `since` is how long ago, at most, it finished or, unfinished, was
    enqueued. `due` tells queued jobs whose time has come from those that are scheduled.
    """

    state: States
    queue: Names
    type: Names
    key: str
    worker: str
    error: str
    since: Seconds
    attempts_over: int
    due: bool
    newest_first: bool


class RowFilters(TypedDict, total=False):
    """The conditions for the rows of a table, which are in one queue, of one type, and without a key in our sense.

    `error` is part of the row's last error. `since` is how long ago, at most, it finished or, unfinished, was created.
    """

    state: States
    worker: str
    error: str
    since: Seconds
    attempts_over: int
    due: bool
    newest_first: bool


def query_of(where: str, filters: Filters, *others: str) -> Query:
    """Return the query of these conditions, or raise for one that cannot be used or does not exist.

    `others` are the options that stand beside them, to be named to who misspelt one.
    """
    checks.refuse_unknown(where, filters, [*Filters.__annotations__, *others])
    return _query(filters)


def row_query_of(where: str, filters: RowFilters, *others: str) -> Query:
    """Return the same for the rows of a table."""
    checks.refuse_unknown(where, filters, [*RowFilters.__annotations__, *others])
    return _query(cast("Filters", filters))


def _query(filters: Filters) -> Query:
    return Query(
        states=states_of(filters.get("state")),
        queues=checks.optional(checks.names, "queue", filters.get("queue")),
        types=checks.optional(checks.names, "type", filters.get("type")),
        key=checks.optional(checks.name, "key", filters.get("key")),
        worker=checks.optional(checks.name, "worker", filters.get("worker")),
        error=filters.get("error"),
        since=checks.optional(checks.seconds, "since", filters.get("since")),
        attempts_over=checks.optional(checks.count, "attempts_over", filters.get("attempts_over")),
        due=checks.optional(checks.truth, "due", filters.get("due")),
        newest_first=checks.truth("newest_first", filters.get("newest_first", True)),
        limit=LARGEST_BATCH,
    )


def has_condition(filters: Filters | RowFilters) -> bool:
    """Tell whether these choose some of the jobs, not all: None is no condition, nor is an order."""
    return any(value is not None for name, value in filters.items() if name != "newest_first")


def states_of(value: States | None) -> frozenset[State] | None:
    """Return states by their names; one string is one state, None is no condition."""
    found = checks.optional(checks.names, "state", value)
    return None if found is None else frozenset(State(checks.choice("state", each, list(State))) for each in found)
