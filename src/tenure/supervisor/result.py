"""How a supervisor ended."""

from dataclasses import dataclass
from enum import StrEnum

from tenure.worker.summary import Summary


class How(StrEnum):
    STOPPED = "it was told to stop"
    DRAINED = "nothing was left to do"
    MISUSED = "a worker process refused to start as it was told"
    GAVE_UP = "no worker process has ever come to run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    how: How
    summary: Summary
    """What all children did."""
    deaths: int
    """How many children ended that were not to."""
    killed: int
    """How many children were told to end, did not, and were killed."""
