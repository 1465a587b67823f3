"""What happens to open files when the process forks, and when it ends.

A connection never crosses a fork: SQLite knows its locks by process, and a child that opens the file while it has the
copy of a connection would believe that it holds what only its parent holds. So everything is closed before a fork, and
opened again on both sides when it is next used.
"""

import atexit
import os
import weakref
from typing import Protocol


class ForkAwareFile(Protocol):
    def before_fork(self) -> None:
        """Close everything, and see that it stays closed."""

    def after_fork_in_parent(self) -> None:
        """Let it be opened again."""

    def after_fork_in_child(self) -> None:
        """Begin anew."""

    def close_if_idle(self) -> None:
        """Close everything, if that is possible at once."""


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
