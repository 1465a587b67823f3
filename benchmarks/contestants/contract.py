"""What a contestant has to do."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

PAYLOAD: dict[str, Any] = {"n": 1}
LEASE = 60.0
BATCHES = (1, 10, 100)


class Queue(Protocol):
    """An open queue. A job that was claimed has its payload decoded, as a handler needs it."""

    def enqueue(self) -> None:
        """Store one job in a transaction of its own."""
        ...

    def enqueue_many(self, number: int) -> None:
        """Store so many jobs, in one call if it can."""
        ...

    def claim_and_complete(self, limit: int) -> int:
        """Claim up to `limit` jobs, then complete them all; return how many."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One row of the report. `against` names the contestant whose number is 1.00 for this one."""

    name: str
    against: str
    about: str
    open: Callable[[Path], Queue]
    batches: tuple[int, ...] = BATCHES
    has_bulk: bool = True
    shares_a_file: bool = False
