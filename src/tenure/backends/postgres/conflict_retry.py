"""Retry a decision that a concurrent transaction made obsolete."""

from collections.abc import Callable
from typing import TypeVar

from tenure.errors import StoreUnavailable

T = TypeVar("T")

MOST_DECISIONS = 50
"""How often a decision is made before the operation fails."""


class Conflict(Exception):  # noqa: N818 - an internal signal of the backend
    """A concurrent transaction changed the rows that the decision was based on."""


def retry_on_conflict(decide: Callable[[], T]) -> T:
    """Call `decide`, which runs a transaction, until no `Conflict` is raised; return the result."""
    for _ in range(MOST_DECISIONS):
        try:
            return decide()
        except Conflict:
            continue
    raise StoreUnavailable("concurrent requests kept changing jobs with the same ids or keys; retry")
