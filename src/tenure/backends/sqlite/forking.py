"""Close SQLite files before a fork, and when the process ends.

A connection must not cross a fork. SQLite's locks belong to a process: a child that opens the file while it has a copy
of a connection would assume locks that only its parent holds. So all connections are closed before a fork, and both
processes open new ones at the next use.
"""

import atexit
import os
import weakref
from typing import Protocol


class ForkAwareFile(Protocol):
    def before_fork(self) -> None:
        """Close all connections, and block new ones."""

    def after_fork_in_parent(self) -> None:
        """Allow new connections."""

    def after_fork_in_child(self) -> None:
        """Discard all inherited connections and locks."""

    def close_if_idle(self) -> None:
        """Close all connections, if no thread uses them."""


_registered: "weakref.WeakSet[ForkAwareFile]" = weakref.WeakSet()


def register(database: ForkAwareFile) -> None:
    _registered.add(database)


def _before() -> None:
    for each in list(_registered):
        each.before_fork()


def _after_in_parent() -> None:
    for each in list(_registered):
        each.after_fork_in_parent()


def _after_in_child() -> None:
    for each in list(_registered):
        each.after_fork_in_child()


@atexit.register
def _at_exit() -> None:
    for each in list(_registered):
        each.close_if_idle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
