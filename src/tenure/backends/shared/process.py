"""An identity of the current process, which differs in a forked child.

Cheaper than `os.getpid()`, for checks that run once for each job.
"""

import os


class ProcessIdentity:
    """A process; compare by identity."""


_current = ProcessIdentity()


def current_process() -> ProcessIdentity:
    """Return the current process."""
    return _current


def _reset_after_fork() -> None:
    global _current  # noqa: PLW0603 - one value for the whole process
    _current = ProcessIdentity()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
