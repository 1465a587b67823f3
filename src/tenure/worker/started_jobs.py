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
from tenure.worker.status import WorkerStatus
from tenure.worker.summary import Summary

CAPACITY = 4_096
"""How many jobs can be written down; the file takes no more room than those do that were written at once."""

MAX_TEXT_BYTES = 4 * LONGEST_NAME
"""Bytes of the longest name or id, in UTF-8."""
LENGTH = Struct("=H")
STATUS_HEADER = Struct("=II")
"""The length and the checksum of what follows."""
PAGE = 4_096
OVERFLOW_AT = 0
CLEAN_EXIT_AT = 1
NAME_AT = 2
STATUS_AT = PAGE
ENTRIES_AT = 2 * PAGE
ENTRY_SIZE = 1_024
SIZE = ENTRIES_AT + CAPACITY * ENTRY_SIZE
MAX_ENTRY_BYTES = ENTRY_SIZE - LENGTH.size
SEPARATOR = "\0"
"""Between the number of a source and the id of a job, which has none. Entries of the first source have no number."""


def new_shared_file() -> int:
    """Return the descriptor of a file that has no name and is gone when nobody has it open."""
    if hasattr(os, "memfd_create"):
        # Not on a disk: to write to a mapped file there when the disk is full ends the process.
        file = os.memfd_create("tenure-started-jobs")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.truncate(file, SIZE)
    return file


class StartedJobs:
    """The side of the worker. Any thread may begin and end runs; a run is begun before it is ended."""

    def __init__(self, file: int) -> None:
        self._map = mmap.mmap(file, SIZE)
        self._free = list(range(SIZE - ENTRY_SIZE, ENTRIES_AT - ENTRY_SIZE, -ENTRY_SIZE))
        self._offsets: dict[Run, int] = {}

    def write_name(self, name: str) -> None:
        """Write down whose ledger this is."""
        _write(self._map, NAME_AT, name.encode())

    def add(self, run: Run, source_index: int = 0) -> None:
        """Write down a job whose handler is about to begin, and the number of the source that it is of."""
        entry = (f"{source_index}{SEPARATOR}{run.id}" if source_index else run.id).encode()
        try:
            offset = self._free.pop()
        except IndexError:
            offset = None
        if offset is None or len(entry) > MAX_ENTRY_BYTES:
            # For good: nobody can tell any more what was not written down.
            self._map[OVERFLOW_AT] = 1
            return
        self._offsets[run] = offset
        _write(self._map, offset, entry)

    def remove(self, runs: Iterable[Run]) -> None:
        """Strike out jobs whose end the store knows, or will not be told; others are passed over."""
        for run in runs:
            offset = self._offsets.pop(run, None)
            if offset is not None:
                LENGTH.pack_into(self._map, offset, 0)
                self._free.append(offset)

    def write_status(self, status: WorkerStatus) -> None:
        """Write down how the worker is."""
        data = json.dumps({"at": ticks(), **asdict(status)}, ensure_ascii=False).encode()
        start = STATUS_AT + STATUS_HEADER.size
        STATUS_HEADER.pack_into(self._map, STATUS_AT, len(data), crc32(data))
        self._map[start : start + len(data)] = data

    def mark_clean_exit(self) -> None:
        """Write down that the worker has ended in order."""
        self._map[CLEAN_EXIT_AT] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSample:
    """How a worker was, at a moment of the clock that all processes of the system share."""

    at: float
    status: WorkerStatus


class StartedJobsReader:
    """The side of whoever watches over the worker."""

    def __init__(self, file: int) -> None:
        self._map = mmap.mmap(file, SIZE, access=mmap.ACCESS_READ)

    @property
    def name(self) -> str | None:
        """The name of the worker; None if it has not got so far, and holds nothing."""
        return _read(self._map, NAME_AT) or None

    @property
    def has_clean_exit(self) -> bool:
        """Whether the worker has ended in order, however its process did then."""
        return bool(self._map[CLEAN_EXIT_AT])

    @property
    def last_sample(self) -> StatusSample | None:
        """What the worker last told of itself; None if there is nothing, or not the whole of it."""
        length, checksum = STATUS_HEADER.unpack_from(self._map, STATUS_AT)
        start = STATUS_AT + STATUS_HEADER.size
        data = self._map[start : start + length]
        if not data or crc32(data) != checksum:
            return None
        fields = json.loads(data)
        at, summary = fields.pop("at"), Summary(**fields.pop("summary"))
        return StatusSample(at=at, status=WorkerStatus(**fields, summary=summary))

    def unfinished_entries(self) -> list[str] | None:
        """Return the entries of jobs that were started and have not ended; None if that is not known.

        For a dead worker only. `started_in` tells the ids of one source.
        """
        if self._map[OVERFLOW_AT]:
            return None
        entries = (_read(self._map, offset) for offset in range(ENTRIES_AT, SIZE, ENTRY_SIZE))
        return [entry for entry in entries if entry]

    def close(self) -> None:
        self._map.close()


def job_ids_of_source(source_index: int, entries: Iterable[str]) -> list[str]:
    """Return the ids of what was started of one source; in another, the same id may be another job."""
    parts = (entry.rpartition(SEPARATOR) for entry in entries)
    return [id for number, _, id in parts if int(number or 0) == source_index]


def _write(map: mmap.mmap, offset: int, text: bytes) -> None:
    """Write a text with its length, which comes last: until then it is not there."""
    start = offset + LENGTH.size
    map[start : start + len(text)] = text
    LENGTH.pack_into(map, offset, len(text))


def _read(map: mmap.mmap, offset: int) -> str:
    (length,) = LENGTH.unpack_from(map, offset)
    start = offset + LENGTH.size
    return map[start : start + length].decode()
