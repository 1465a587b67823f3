"""Describe the machine of a measurement, without its name."""

import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

EMBEDDED = ("tenure", "litequeue", "huey")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    cores: int
    python: str
    sqlite: str
    kernel: str
    filesystem: str
    packages: dict[str, str]

    @classmethod
    def here(cls, folder: Path, packages: Sequence[str] = EMBEDDED) -> "Machine":
        return cls(
            cores=os.cpu_count() or 1,
            python=f"{platform.python_implementation()} {platform.python_version()}",
            sqlite=sqlite3.sqlite_version,
            kernel=f"{platform.system()} {platform.release()}",
            filesystem=filesystem_of(folder),
            packages={name: found for name in packages if (found := version_of(name)) is not None},
        )

    def __str__(self) -> str:
        packages = ", ".join(f"{name} {version}" for name, version in self.packages.items())
        return (
            f"{self.cores} cores, {self.kernel}, files on {self.filesystem}\n"
            f"{self.python}, SQLite {self.sqlite}, {packages}"
        )


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def filesystem_of(folder: Path) -> str:
    """Return the file system of a folder: commits are cheap on a file system in memory."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return f"a file system of {sys.platform}"
    kinds = {Path(place): kind for _, place, kind, *_ in map(str.split, mounts.read_text().splitlines())}
    places = [folder.resolve(), *folder.resolve().parents]
    return next((kinds[place] for place in places if place in kinds), "an unknown file system")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, and delete it afterwards."""
    with tempfile.TemporaryDirectory(prefix="tenure-bench-", dir=folder) as place:
        yield Path(place)


class StealMeter:
    """Steal time: the share of CPU time that the hypervisor gave to other machines, if the kernel reports it."""

    def __init__(self) -> None:
        self._before = _ticks()

    def share(self) -> float | None:
        """Return the share since the last call, or None if unknown."""
        before, self._before = self._before, _ticks()
        if before is None or self._before is None or self._before[1] == before[1]:
            return None
        return (self._before[0] - before[0]) / (self._before[1] - before[1])


def _ticks() -> tuple[int, int] | None:
    """Return the stolen ticks and all ticks."""
    source = Path("/proc/stat")
    if not source.exists():
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal; the other fields are included in the first two.
    numbers = [int(each) for each in source.read_text().splitlines()[0].split()[1:9]]
    return numbers[7], sum(numbers)
