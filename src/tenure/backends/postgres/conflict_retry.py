"""Decide anew, from what is stored by then, when somebody else was first."""

from collections.abc import Callable
from typing import TypeVar

from tenure.errors import StoreUnavailable

T = TypeVar("T")

MOST_DECISIONS = 50
"""How often it is decided anew, before others have had their way often enough."""


class Conflict(Exception):  # noqa: N818 - an internal signal of the backend
    """What was decided on has changed since it was looked up."""


def retry_on_conflict(decide: Callable[[], T]) -> T:
    """Return what is decided in a transaction of its own, once nobody else was first."""
    for _ in range(MOST_DECISIONS):
        try:
            return decide()
        except Conflict:
            continue
    raise StoreUnavailable("concurrent requests kept changing jobs with the same ids or keys; retry")
