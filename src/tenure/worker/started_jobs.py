"""Which jobs a worker has started, and how it is: written where it can be read after its process was killed.

A file in memory that two processes share. The worker writes a job down right before its handler begins, and strikes it
out when the store knows how it ended. So what stands there when the process is dead had been started, and what the
worker held besides had not. Nothing is ever locked: a process that dies while it writes leaves an entry that is not
there yet, or a pulse that is not whole and is told to be so.
"""

import json
import mmap
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from struct import Struct
from zlib import crc32

from tenure.client.keeper import ticks
from tenure.client.run import Run
from tenure.core.checks import LONGEST_NAME
from tenure.worker.status import Vitals
from tenure.worker.summary import Summary

CAPACITY = 4_096
"""How many jobs can be written down; the file takes no more room than those do that were written at once."""

LONGEST = 4 * LONGEST_NAME
"""Bytes of the longest name or id, in UTF-8."""
LENGTH = Struct("=H")
PULSE = Struct("=II")
"""The length and the checksum of what follows."""
PAGE = 4_096
OVERFLOW = 0
SEAL = 1
NAME = 2
PULSE_AT = PAGE
ENTRIES_AT = 2 * PAGE
ENTRY = 1_024
SIZE = ENTRIES_AT + CAPACITY * ENTRY
LONGEST_ENTRY = ENTRY - LENGTH.size
SEPARATOR = "\0"
"""Between the number of a source and the id of a job, which has none. Entries of the first source have no number."""


def new_ledger_file() -> int:
    """Return the descriptor of a file that has no name and is gone when nobody has it open."""
    if hasattr(os, "memfd_create"):
        # Not on a disk: to write to a mapped file there when the disk is full ends the process.
        file = os.memfd_create("tenure-ledger")
    else:
        with tempfile.TemporaryFile() as made:
            file = os.dup(made.fileno())
    os.truncate(file, SIZE)
    return file


class Ledger:
    """The side of the worker. Any thread may begin and end runs; a run is begun before it is ended."""

    def __init__(self, file: int) -> None:
        self._map = mmap.mmap(file, SIZE)
        self._free = list(range(SIZE - ENTRY, ENTRIES_AT - ENTRY, -ENTRY))
        self._places: dict[Run, int] = {}

    def open(self, name: str) -> None:
        """Write down whose ledger this is."""
        _write(self._map, NAME, name.encode())

    def begin(self, run: Run, source: int = 0) -> None:
        """Write down a job whose handler is about to begin, and the number of the source that it is of."""
        entry = (f"{source}{SEPARATOR}{run.id}" if source else run.id).encode()
        try:
            place = self._free.pop()
        except IndexError:
            place = None
        if place is None or len(entry) > LONGEST_ENTRY:
            # For good: nobody can tell any more what was not written down.
            self._map[OVERFLOW] = 1
            return
        self._places[run] = place
        _write(self._map, place, entry)

    def end(self, runs: Iterable[Run]) -> None:
        """Strike out jobs whose end the store knows, or will not be told; others are passed over."""
        for run in runs:
            place = self._places.pop(run, None)
            if place is not None:
                LENGTH.pack_into(self._map, place, 0)
                self._free.append(place)

    def beat(self, vitals: Vitals) -> None:
        """Write down how the worker is."""
        told = json.dumps({"at": ticks(), **asdict(vitals)}, ensure_ascii=False).encode()
        start = PULSE_AT + PULSE.size
        PULSE.pack_into(self._map, PULSE_AT, len(told), crc32(told))
        self._map[start : start + len(told)] = told

    def seal(self) -> None:
        """Write down that the worker has ended in order."""
        self._map[SEAL] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """How a worker was, at a moment of the clock that all processes of the system share."""

    at: float
    vitals: Vitals


class LedgerReader:
    """The side of whoever watches over the worker."""

    def __init__(self, file: int) -> None:
        self._map = mmap.mmap(file, SIZE, access=mmap.ACCESS_READ)

    @property
    def name(self) -> str | None:
        """The name of the worker; None if it has not got so far, and holds nothing."""
        return _read(self._map, NAME) or None

    @property
    def is_sealed(self) -> bool:
        """Whether the worker has ended in order, however its process did then."""
        return bool(self._map[SEAL])

    @property
    def pulse(self) -> Pulse | None:
        """What the worker last told of itself; None if there is nothing, or not the whole of it."""
        length, checksum = PULSE.unpack_from(self._map, PULSE_AT)
        start = PULSE_AT + PULSE.size
        told = self._map[start : start + length]
        if not told or crc32(told) != checksum:
            return None
        facts = json.loads(told)
        at, summary = facts.pop("at"), Summary(**facts.pop("summary"))
        return Pulse(at=at, vitals=Vitals(**facts, summary=summary))

    def started(self) -> list[str] | None:
        """Return the entries of jobs that were started and have not ended; None if that is not known.

        For a dead worker only. `started_in` tells the ids of one source.
        """
        if self._map[OVERFLOW]:
            return None
        entries = (_read(self._map, place) for place in range(ENTRIES_AT, SIZE, ENTRY))
        return [entry for entry in entries if entry]

    def close(self) -> None:
        self._map.close()


def started_in(source: int, entries: Iterable[str]) -> list[str]:
    """Return the ids of what was started of one source; in another, the same id may be another job."""
    parts = (entry.rpartition(SEPARATOR) for entry in entries)
    return [id for number, _, id in parts if int(number or 0) == source]


def _write(map: mmap.mmap, place: int, text: bytes) -> None:
    """Write a text with its length, which comes last: until then it is not there."""
    start = place + LENGTH.size
    map[start : start + len(text)] = text
    LENGTH.pack_into(map, place, len(text))


def _read(map: mmap.mmap, place: int) -> str:
    (length,) = LENGTH.unpack_from(map, place)
    start = place + LENGTH.size
    return map[start : start + length].decode()
