"""Reset stores in the child process after a fork: open connections still belong to the parent.

A child that closed such a connection would end the parent's session, because both use the same socket.
"""

import os
import weakref
from collections.abc import Iterable
from typing import Protocol


class ForkAware(Protocol):
    def after_fork_in_child(self) -> None:
        """Discard all inherited connections and locks."""


_registered: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()
_abandoned_connections: list[object] = []


def register(store: ForkAware) -> None:
    _registered.add(store)


def abandon(connections: Iterable[object]) -> None:
    """Keep these connections referenced, and so unclosed, until the process ends."""
    _abandoned_connections.extend(connections)


def _after_in_child() -> None:
    for each in list(_registered):
        each.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
