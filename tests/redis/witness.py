"""What processes tell of what they did, in files that outlive them and their server."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """What was told: of which claim of a job, 0 before the first."""

    what: str
    id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Witness:
    """A folder with a file for each process that tells something."""

    folder: Path

    @property
    def gate(self) -> Path:
        """The file for which those wait who go on until they are told to end."""
        return self.folder / "gate"

    def tell(self, what: str, claims: Iterable[tuple[str, int]]) -> None:
        """Write a line for each; a process that is killed leaves all of them or none."""
        text = "".join(f"{what} {id} {fence}\n" for id, fence in claims)
        file = os.open(self.folder / f"told-{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, text.encode())
        os.close(file)

    def told(self, what: str) -> list[Line]:
        """Return the lines about this, of each process in the order in which they were written."""
        lines = (line.split() for file in self._files() for line in file.read_text().splitlines())
        return [Line(said, id, int(fence)) for said, id, fence in lines if said == what]

    def sizes(self) -> dict[str, int]:
        """Return how much each process has told by now."""
        return {file.name: file.stat().st_size for file in self._files()}

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("told-*"))
