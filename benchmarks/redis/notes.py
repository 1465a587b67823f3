"""Which jobs ran, and when: a file with a place for each, mapped into every process that runs some.

The clock is one for all processes of a machine. A note costs less than a microsecond.
"""

import mmap
import time
from array import array
from pathlib import Path
from struct import Struct
from time import perf_counter

MOMENT = Struct("d")
PLACE = 1 + MOMENT.size
"""Bytes a job: how often it ran, all of these first, and then when it did."""
PAUSE = 0.002
"""Seconds between two looks whether it ran: so seldom that nobody is disturbed."""


class Notes:
    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.jobs = len(self._map) // PLACE

    @classmethod
    def made(cls, path: Path, jobs: int) -> "Notes":
        """Return an empty file for so many jobs, numbered from 0 on."""
        path.write_bytes(bytes(PLACE * jobs))
        return cls(path)

    def note(self, n: int) -> None:
        MOMENT.pack_into(self._map, self.jobs + MOMENT.size * n, perf_counter())
        self._map[n] += 1

    def await_all(self, number: int, patience: float) -> None:
        """Return when the first so many have run; raise if one ran twice, or if that one is not run which is next."""
        n = 0
        while (n := self._map.find(b"\0", n, number)) >= 0:
            self.await_one(n, patience)
        if again := sum(runs > 1 for runs in self._map[:number]):
            raise RuntimeError(f"{again:,} of {number:,} jobs ran more than once")

    def await_one(self, n: int, patience: float) -> float:
        """Return the moment at which this one began, when it has."""
        ends_at = perf_counter() + patience
        while not self._map[n]:
            if perf_counter() > ends_at:
                raise TimeoutError(f"job {n:,} has not run after {patience:g} s")
            time.sleep(PAUSE)
        moment: float
        (moment,) = MOMENT.unpack_from(self._map, self.jobs + MOMENT.size * n)
        return moment

    def first_at(self, number: int) -> float:
        """Return when the earliest of the first so many began, all of which have run."""
        return min(array("d", self._map[self.jobs : self.jobs + MOMENT.size * number]))
