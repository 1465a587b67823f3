"""What a contestant has to do: run jobs that do nothing, and note when those begin that are waited for."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

CONCURRENCY = 10
Started = Callable[[], None]
"""Called by a handler when it begins."""


class Backlog(Protocol):
    """Jobs that wait, and the one who works them off."""

    def fill(self, number: int) -> None:
        """Have so many jobs wait."""
        ...

    def drain(self) -> float:
        """Run them all; return the seconds that it took."""
        ...

    def close(self) -> None: ...


class Service(Protocol):
    """A worker that waits for jobs, and a client of it. One process may have the one, another the other."""

    def enqueue(self) -> None: ...

    def running(self) -> AbstractContextManager[object]:
        """Have the worker run, in threads, while the block does."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One row of the report. `against` names the contestant whose number is 1.00 for this one."""

    name: str
    against: str
    about: str
    backlog: Callable[[Path], Backlog]
    service: Callable[[Path, Started], Service] | None = None
    """None for what is no worker."""
    is_shared: bool = False
    """Whether the client of a worker is another process."""
