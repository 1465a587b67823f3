"""The result of a supervisor."""

from dataclasses import dataclass
from enum import StrEnum

from tenure.worker.summary import Summary


class ExitReason(StrEnum):
    STOPPED = "stopped"
    DRAINED = "no jobs left"
    START_REJECTED = "the worker process could not start"
    NEVER_READY = "no worker process became ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorResult:
    reason: ExitReason
    summary: Summary
    """The runs of all children."""
    deaths: int
    """The number of children that exited unexpectedly."""
    killed: int
    """The number of children that did not stop in time and were killed."""
