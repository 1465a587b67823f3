"""The interface of a contestant."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

PAYLOAD: dict[str, Any] = {"n": 1}
LEASE = 60.0
BATCHES = (1, 10, 100)


class Queue(Protocol):
    """An open queue. `claim` decodes the payload, as a handler needs it."""

    def enqueue(self) -> None:
        """Store a job in a separate transaction."""
        ...

    def enqueue_many(self, number: int) -> None:
        """Store the number of jobs, in one call if possible."""
        ...

    def claim_and_complete(self, limit: int) -> int:
        """Claim up to `limit` jobs, then complete all of them; return the number."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One row of the report. `against` is the contestant that the ratio refers to."""

    name: str
    against: str
    about: str
    open: Callable[[Path], Queue]
    batches: tuple[int, ...] = BATCHES
    has_bulk: bool = True
    shares_a_file: bool = False
