"""The folder of a scene: the URL of the store, and the lines that handlers write.

The processes of a scene share nothing else.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import tenure

T = TypeVar("T")

URL = "url"
"""Name of the file with the URL of the store."""

PATIENCE = 120.0
"""Seconds after which a wait fails."""


class Line(NamedTuple):
    """A line that a handler wrote: the event, the run and the process."""

    what: str
    id: str
    fence: int
    pid: int


@dataclass(frozen=True, slots=True)
class Stage:
    folder: Path

    @property
    def url(self) -> str:
        """The URL of the store, with a query string."""
        return (self.folder / URL).read_text()

    @property
    def gate(self) -> Path:
        """The file that ends the `hold` handlers: they wait until the file exists."""
        return self.folder / "gate"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def jobs(self, timeout: float = 60.0) -> tenure.Jobs:
        """Open the store with a timeout in seconds."""
        return tenure.Jobs(f"{self.url}&timeout={timeout}")

    def tell(self, what: str) -> None:
        """Write a line about the current run, in one system call: a killed process writes a whole line or none."""
        run = tenure.current()
        line = f"{what} {run.id} {run.fence} {os.getpid()}\n"
        file = os.open(self._told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)

    def told(self, what: str) -> list[Line]:
        """Return the lines about an event in the order of writing."""
        lines = (line.split() for line in self._told.read_text().splitlines()) if self._told.exists() else ()
        return [Line(said, id, int(fence), int(pid)) for said, id, fence, pid in lines if said == what]

    @property
    def _told(self) -> Path:
        return self.folder / "told"


def stage_on(url: str, folder: Path) -> Stage:
    """Create a stage in a folder, on the store at `url`."""
    (folder / URL).write_text(url)
    return Stage(folder)


def until(condition: Callable[[], T]) -> T:
    """Wait until the condition returns a true value; return the value."""
    ends_at = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < ends_at, f"the condition did not hold within {PATIENCE:g} s"
        time.sleep(0.01)
    return value
