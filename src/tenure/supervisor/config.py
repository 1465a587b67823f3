"""What a supervisor is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KILL_MARGIN = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorConfig:
    """How many worker processes there are to be, what each of them is, and when they are replaced.

    `command` starts a worker, which calls `supervised()`. `reap_command` starts a process that gets a message on its
    standard input and hands it to `reap_dead`. A child has `grace` seconds for its handlers when it is told to end.
    """

    command: Sequence[str]
    reap_command: Sequence[str]
    processes: int
    grace: float
    kill_margin: float = KILL_MARGIN
    """Seconds that a child has to end after that, before it is killed."""
    drain: bool = False
    """Whether a child that has ended well is not to be replaced: it found nothing more to do."""
    max_jobs: int | None = None
    """After about how many runs a child is replaced."""
    max_memory: int | None = None
    """Above how many bytes of memory a child is replaced."""
    reload: Sequence[Path] | None = None
    """The folders in which a change to a Python file replaces all children."""
