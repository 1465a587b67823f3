"""Record which jobs ran, and when: a file with an entry per job, mapped into every worker process.

All processes of a machine share one clock. A record costs less than a microsecond.
"""

import mmap
import time
from array import array
from pathlib import Path
from struct import Struct
from time import perf_counter

MOMENT = Struct("d")
PLACE = 1 + MOMENT.size
"""Bytes per job: the run counters of all jobs come first, then their start times."""
PAUSE = 0.002
"""Seconds between two checks, long enough not to disturb the worker."""


class Notes:
    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.jobs = len(self._map) // PLACE

    @classmethod
    def made(cls, path: Path, jobs: int) -> "Notes":
        """Create an empty file for the number of jobs, numbered from 0."""
        path.write_bytes(bytes(PLACE * jobs))
        return cls(path)

    def note(self, n: int) -> None:
        MOMENT.pack_into(self._map, self.jobs + MOMENT.size * n, perf_counter())
        self._map[n] += 1

    def await_all(self, number: int, patience: float) -> None:
        """Wait until the first `number` jobs have run; raise if a job runs twice or does not run in time."""
        n = 0
        while (n := self._map.find(b"\0", n, number)) >= 0:
            self.await_one(n, patience)
        if again := sum(runs > 1 for runs in self._map[:number]):
            raise RuntimeError(f"{again:,} of {number:,} jobs ran more than once")

    def await_one(self, n: int, patience: float) -> float:
        """Wait until a job has started, and return its start time."""
        ends_at = perf_counter() + patience
        while not self._map[n]:
            if perf_counter() > ends_at:
                raise TimeoutError(f"job {n:,} has not run after {patience:g} s")
            time.sleep(PAUSE)
        moment: float
        (moment,) = MOMENT.unpack_from(self._map, self.jobs + MOMENT.size * n)
        return moment

    def first_at(self, number: int) -> float:
        """Return the earliest start time of the first `number` jobs, which must have run."""
        return min(array("d", self._map[self.jobs : self.jobs + MOMENT.size * number]))
