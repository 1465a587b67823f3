"""The interface of a contestant: store empty jobs, and run them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Queue(Protocol):
    """A queue in its own database."""

    def enqueue(self, number: int, at_once: int) -> float:
        """Store `number` jobs, `at_once` per call; return the seconds."""
        ...

    def drain(self) -> float:
        """Run all stored jobs; return the seconds."""
        ...

    def left(self) -> int:
        """Return the number of jobs that are not completed."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One row of the report; `open` takes the URL of an empty database."""

    name: str
    about: str
    open: Callable[[str], Queue]
    is_raw: bool = False
    """Whether the contestant runs only the statements. The fastest of these contestants is the yardstick."""
