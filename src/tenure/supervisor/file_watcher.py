"""Detect changes of Python files."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

IGNORED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}

FileSignature = tuple[int, int, int]
"""Modification time, size and inode: they differ after a file was changed or replaced."""


class FileWatcher:
    """Scan folders on demand. Hidden folders, caches and virtual environments are skipped."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._signatures = self._scan()

    def poll_changes(self) -> list[Path]:
        """Return the files that were changed, added or removed since the last call."""
        before, self._signatures = self._signatures, self._scan()
        return [path for path in sorted(before | self._signatures) if before.get(path) != self._signatures.get(path)]

    def _scan(self) -> dict[Path, FileSignature]:
        return {path: signature for folder in self._folders for path, signature in _python_files(folder)}


def _python_files(folder: Path) -> Iterator[tuple[Path, FileSignature]]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_watched(Path(root, name))]
        for name in files:
            if name.endswith(".py"):
                path = Path(root, name)
                try:
                    status = path.stat()
                except OSError:
                    # The file was removed during the scan.
                    continue
                yield path, (status.st_mtime_ns, status.st_size, status.st_ino)


def _is_watched(folder: Path) -> bool:
    is_ignored = folder.name.startswith(".") or folder.name in IGNORED_FOLDERS
    return not is_ignored and not (folder / "pyvenv.cfg").exists()
