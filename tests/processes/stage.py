"""The folder in which a scene plays: where its store is, and what its handlers tell of themselves.

It is all that the processes of a scene have to know.
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
"""The file that says where the store is."""

PATIENCE = 120.0
"""Seconds after which something that has to happen counts as not happening."""


class Line(NamedTuple):
    """What a handler told: of which run, in which process."""

    what: str
    id: str
    fence: int
    pid: int


@dataclass(frozen=True, slots=True)
class Stage:
    folder: Path

    @property
    def url(self) -> str:
        """The URL of the store; it has options."""
        return (self.folder / URL).read_text()

    @property
    def gate(self) -> Path:
        """The file for which the handlers that hold wait."""
        return self.folder / "gate"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def jobs(self, timeout: float = 60.0) -> tenure.Jobs:
        """Return the store, for one who waits so long for it."""
        return tenure.Jobs(f"{self.url}&timeout={timeout}")

    def tell(self, what: str) -> None:
        """Write a line about the present run; a process that is killed leaves a whole line or none."""
        run = tenure.current()
        line = f"{what} {run.id} {run.fence} {os.getpid()}\n"
        file = os.open(self._told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)

    def told(self, what: str) -> list[Line]:
        """Return the lines about this, in the order in which they were written."""
        lines = (line.split() for line in self._told.read_text().splitlines()) if self._told.exists() else ()
        return [Line(said, id, int(fence), int(pid)) for said, id, fence, pid in lines if said == what]

    @property
    def _told(self) -> Path:
        return self.folder / "told"


def stage_on(url: str, folder: Path) -> Stage:
    """Set a stage in this folder, on the store of this URL."""
    (folder / URL).write_text(url)
    return Stage(folder)


def until(condition: Callable[[], T]) -> T:
    """Wait until this is true, and return what it is then."""
    ends_at = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < ends_at, f"the condition did not hold within {PATIENCE:g} s"
        time.sleep(0.01)
    return value
