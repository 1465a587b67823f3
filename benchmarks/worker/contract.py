"""The interface of a contestant: run empty jobs, and record the start times for the latency measurement."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

CONCURRENCY = 10
Started = Callable[[], None]
"""Called at the start of a handler."""


class Backlog(Protocol):
    """A backlog of jobs, and its worker."""

    def fill(self, number: int) -> None:
        """Enqueue the number of jobs."""
        ...

    def drain(self) -> float:
        """Run all jobs; return the seconds."""
        ...

    def close(self) -> None: ...


class Service(Protocol):
    """A worker that waits for jobs, and its client. Both may be in different processes."""

    def enqueue(self) -> None: ...

    def running(self) -> AbstractContextManager[object]:
        """Run the worker in threads during the block."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One row of the report. `against` is the contestant that the ratio refers to."""

    name: str
    against: str
    about: str
    backlog: Callable[[Path], Backlog]
    service: Callable[[Path, Started], Service] | None = None
    """None if the contestant has no worker."""
    is_shared: bool = False
    """Whether the client runs in another process."""
