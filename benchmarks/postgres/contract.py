"""What a contestant has to do: store jobs that do nothing, and run them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Queue(Protocol):
    """A queue in a database of its own."""

    def enqueue(self, number: int, at_once: int) -> float:
        """Store so many jobs, so many a call; return the seconds that it took."""
        ...

    def drain(self) -> float:
        """Run all that are stored; return the seconds that it took."""
        ...

    def left(self) -> int:
        """Return how many jobs are stored and not completed."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One row of the report; opened by the URL of an empty database."""

    name: str
    about: str
    open: Callable[[str], Queue]
    is_raw: bool = False
    """Whether it is the statements alone. The fastest of these is the yardstick of the others."""
