"""What a contestant has to do: store jobs that note that they ran, and have a command by which a worker runs them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

TEXT = "x" * 80


def payload(n: int) -> dict[str, Any]:
    """Return about a hundred bytes, with the number of the job."""
    return {"n": n, "text": TEXT}


class Queue(Protocol):
    """A client of an empty server."""

    def enqueue(self, jobs: range, at_once: int) -> None:
        """Store the jobs of these numbers, so many a call."""
        ...

    def left(self) -> int:
        """Return how many jobs are stored and not completed, or not acknowledged."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One row of the report."""

    name: str
    about: str
    open: Callable[[], Queue]
    command: tuple[str, ...]
    """A worker as Python starts it, by the name of its module; it runs until SIGTERM."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it is told beside its command."""
    jobs: int
    """How many it runs in a few seconds."""
    has_bulk: bool = True
    is_waited_for: bool = False
    """Whether it is measured how long a job waits for it when it idles."""
    is_durable: bool = False
    """Whether its server writes each change to the disk before it answers."""
