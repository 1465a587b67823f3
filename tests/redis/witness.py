"""Logs of processes, in files that outlive the processes and their server."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """A log line: the job and the fence of its claim, 0 before the first claim."""

    what: str
    id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Witness:
    """A folder with a log file per process."""

    folder: Path

    @property
    def gate(self) -> Path:
        """The file that tells the processes to end."""
        return self.folder / "gate"

    def tell(self, what: str, claims: Iterable[tuple[str, int]]) -> None:
        """Write the lines at once; a killed process leaves all of them or none."""
        text = "".join(f"{what} {id} {fence}\n" for id, fence in claims)
        file = os.open(self.folder / f"told-{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, text.encode())
        os.close(file)

    def told(self, what: str) -> list[Line]:
        """Return the lines of this kind, in the order of each process."""
        lines = (line.split() for file in self._files() for line in file.read_text().splitlines())
        return [Line(said, id, int(fence)) for said, id, fence in lines if said == what]

    def sizes(self) -> dict[str, int]:
        """Return the size of each log file."""
        return {file.name: file.stat().st_size for file in self._files()}

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("told-*"))
