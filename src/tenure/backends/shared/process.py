"""Which process this is: a forked child is another one, though it has a copy of all that its parent had.

For those who ask for each job. To ask the system takes longer.
"""

import os


class ProcessIdentity:
    """Compared by identity."""


_current = ProcessIdentity()


def current_process() -> ProcessIdentity:
    """Return this process."""
    return _current


def _reset_after_fork() -> None:
    global _current  # noqa: PLW0603 - one value for the whole process
    _current = ProcessIdentity()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
