"""How a service is: one worker, or all the worker processes of a supervisor."""

from dataclasses import dataclass, field

from tenure.worker.status import WorkerStatus
from tenure.worker.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """The workers that are there now, how many there should be, and what those did that are no more."""

    workers: tuple[WorkerStatus, ...]
    wanted: int
    is_stopping: bool = False
    deaths: int = 0
    """How many processes ended that were not to."""
    quiet_for: float = 0.0
    """For how many seconds whoever watches over the processes has not turned."""
    ended_summary: Summary = field(default_factory=Summary)
    """What the workers did that have ended, so that counts never fall."""
