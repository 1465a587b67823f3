"""Decide anew, from what is stored by then, when somebody else was first."""

from collections.abc import Callable
from typing import TypeVar

from tenure.errors import StoreUnavailable

T = TypeVar("T")

MOST_ROUNDS = 50
"""How often it is decided anew, before others have had their way often enough."""


class SomebodyElseWasFirst(Exception):  # noqa: N818 - it names a fact, and never leaves the backend
    """What was decided on has changed since it was looked up."""


def decided(decide: Callable[[], T]) -> T:
    """Return what is decided in a transaction of its own, once nobody else was first."""
    for _ in range(MOST_ROUNDS):
        try:
            return decide()
        except SomebodyElseWasFirst:
            continue
    raise StoreUnavailable("others kept changing jobs of the same ids or keys; ask again")
