"""Which process this is: a forked child is another one, though it has a copy of all that its parent had.

For those who ask for each job. To ask the system takes longer.
"""

import os


class Process:
    """Compared by identity."""


_here = Process()


def here() -> Process:
    """Return this process."""
    return _here


def _begin_in_a_child() -> None:
    global _here  # noqa: PLW0603 - there is one
    _here = Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_a_child)
