"""The Python files under some folders, and whether they have changed."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

PASSED_OVER = {"__pycache__", "node_modules", "site-packages"}

Mark = tuple[int, int, int]
"""By which a file that was changed, or replaced by another, is told from what it was."""


class Sources:
    """Looks only when it is asked to. Hidden folders, caches and environments are not looked at."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._marks = self._look()

    def changed(self) -> list[Path]:
        """Return the files that were changed, added or removed since the last time."""
        before, self._marks = self._marks, self._look()
        return [path for path in sorted(before | self._marks) if before.get(path) != self._marks.get(path)]

    def _look(self) -> dict[Path, Mark]:
        return {path: mark for folder in self._folders for path, mark in _python_files(folder)}


def _python_files(folder: Path) -> Iterator[tuple[Path, Mark]]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_looked_at(Path(place, name))]
        for name in files:
            if name.endswith(".py"):
                path = Path(place, name)
                try:
                    status = path.stat()
                except OSError:
                    # It was removed a moment ago.
                    continue
                yield path, (status.st_mtime_ns, status.st_size, status.st_ino)


def _is_looked_at(folder: Path) -> bool:
    is_for_others = folder.name.startswith(".") or folder.name in PASSED_OVER
    return not is_for_others and not (folder / "pyvenv.cfg").exists()
