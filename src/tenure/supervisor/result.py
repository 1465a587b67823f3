"""How a supervisor ended."""

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
    """What all children did."""
    deaths: int
    """How many children ended that were not to."""
    killed: int
    """How many children were told to end, did not, and were killed."""
