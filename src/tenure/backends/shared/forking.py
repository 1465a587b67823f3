"""What happens to open connections when the process forks: they stay the parent's.

A child that closed one would tell the server, over the same socket, to end the session of its parent.
"""

import os
import weakref
from collections.abc import Iterable
from typing import Protocol


class ForkAware(Protocol):
    def after_fork_in_child(self) -> None:
        """Begin anew."""


_registered: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()
_abandoned_connections: list[object] = []


def register(store: ForkAware) -> None:
    _registered.add(store)


def abandon(connections: Iterable[object]) -> None:
    """Let these be for as long as the process lives."""
    _abandoned_connections.extend(connections)


def _after_in_child() -> None:
    for each in list(_registered):
        each.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
