"""The status of a service: one worker, or all worker processes of a supervisor."""

from dataclasses import dataclass, field

from tenure.worker.status import WorkerStatus
from tenure.worker.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """The current workers, the wanted number, and the counts of workers that have ended."""

    workers: tuple[WorkerStatus, ...]
    wanted: int
    is_stopping: bool = False
    deaths: int = 0
    """The number of processes that exited unexpectedly."""
    blocked_for: float = 0.0
    """For how many seconds the supervisor has been blocked."""
    ended_summary: Summary = field(default_factory=Summary)
    """The runs of workers that have ended, so that counters never decrease."""
