"""The configuration of a supervisor."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KILL_MARGIN = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorConfig:
    """The number of worker processes, how to start them, and when to replace them.

    `command` starts a worker, which calls `take_supervisor_link()`. `reap_command` starts a process that reads a
    message from its standard input and passes it to `reap_dead`. When a child is stopped, its handlers have `grace`
    seconds to end.
    """

    command: Sequence[str]
    reap_command: Sequence[str]
    processes: int
    grace: float
    kill_margin: float = KILL_MARGIN
    """Seconds after the grace period before a child is killed."""
    drain: bool = False
    """Whether a child that exits cleanly is not replaced, because no jobs are due."""
    max_jobs: int | None = None
    """Approximate number of runs after which a child is replaced."""
    max_memory: int | None = None
    """Resident memory in bytes above which a child is replaced."""
    reload: Sequence[Path] | None = None
    """Folders in which a changed Python file restarts all children."""
