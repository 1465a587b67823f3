"""The interface of a contestant: store jobs that record their run, and name the command of a worker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

TEXT = "x" * 80


def payload(n: int) -> dict[str, Any]:
    """Return a payload of about a hundred bytes with the number of the job."""
    return {"n": n, "text": TEXT}


class Queue(Protocol):
    """A client of an empty server."""

    def enqueue(self, jobs: range, at_once: int) -> None:
        """Store the jobs with these numbers, `at_once` per call."""
        ...

    def left(self) -> int:
        """Return the number of jobs that are not completed or acknowledged."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A row of the report."""

    name: str
    about: str
    open: Callable[[], Queue]
    command: tuple[str, ...]
    """The module and arguments of the worker; it runs until SIGTERM."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the worker."""
    jobs: int
    """Jobs that the worker runs in a few seconds."""
    has_bulk: bool = True
    is_waited_for: bool = False
    """Whether to measure the latency with an idle worker."""
    is_durable: bool = False
    """Whether the server writes every change to disk before it responds."""
