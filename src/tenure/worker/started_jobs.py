"""Record the started jobs and the status of a worker where the supervisor can read them after a crash.

The record is a memory-mapped file shared by two processes. The worker adds a job right before its handler starts and
removes the job when its settlement is confirmed or deferred. So the entries of a dead worker are the jobs whose handler
may have been running. There are no locks: a process that dies while it writes leaves an entry of length zero, or a
status with a wrong checksum.
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
"""Largest number of entries. Only pages that were used take memory."""

MAX_TEXT_BYTES = 4 * LONGEST_NAME
"""Length of the longest name or id, in bytes of UTF-8."""
LENGTH = Struct("=H")
STATUS_HEADER = Struct("=II")
"""The length and the checksum of the status that follows."""
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
"""Separates the index of a source from the job id, which has no NUL. Entries of the first source have no index."""


def new_shared_file() -> int:
    """Return the descriptor of an anonymous file, which disappears when the last process closes it."""
    if hasattr(os, "memfd_create"):
        # In memory: writing to a mapped file on a full disk kills the process.
        file = os.memfd_create("tenure-started-jobs")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.truncate(file, SIZE)
    return file


class StartedJobs:
    """The worker's side. Any thread may add and remove runs; a run is added before it is removed."""

    def __init__(self, file: int) -> None:
        self._map = mmap.mmap(file, SIZE)
        self._free = list(range(SIZE - ENTRY_SIZE, ENTRIES_AT - ENTRY_SIZE, -ENTRY_SIZE))
        self._offsets: dict[Run, int] = {}

    def write_name(self, name: str) -> None:
        """Record the name of the worker."""
        _write(self._map, NAME_AT, name.encode())

    def add(self, run: Run, source_index: int = 0) -> None:
        """Add a job whose handler is about to start, with the index of its source."""
        entry = (f"{source_index}{SEPARATOR}{run.id}" if source_index else run.id).encode()
        try:
            offset = self._free.pop()
        except IndexError:
            offset = None
        if offset is None or len(entry) > MAX_ENTRY_BYTES:
            # Never reset: from now on the entries are incomplete.
            self._map[OVERFLOW_AT] = 1
            return
        self._offsets[run] = offset
        _write(self._map, offset, entry)

    def remove(self, runs: Iterable[Run]) -> None:
        """Remove jobs whose settlement is confirmed, deferred or given up; ignore runs without an entry."""
        for run in runs:
            offset = self._offsets.pop(run, None)
            if offset is not None:
                LENGTH.pack_into(self._map, offset, 0)
                self._free.append(offset)

    def write_status(self, status: WorkerStatus) -> None:
        """Write the status of the worker."""
        data = json.dumps({"at": ticks(), **asdict(status)}, ensure_ascii=False).encode()
        start = STATUS_AT + STATUS_HEADER.size
        STATUS_HEADER.pack_into(self._map, STATUS_AT, len(data), crc32(data))
        self._map[start : start + len(data)] = data

    def mark_clean_exit(self) -> None:
        """Record that the worker has ended cleanly."""
        self._map[CLEAN_EXIT_AT] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSample:
    """The status of a worker at a time of the system-wide monotonic clock."""

    at: float
    status: WorkerStatus


class StartedJobsReader:
    """The supervisor's side."""

    def __init__(self, file: int) -> None:
        self._map = mmap.mmap(file, SIZE, access=mmap.ACCESS_READ)

    @property
    def name(self) -> str | None:
        """The name of the worker; None if the worker does not exist yet, and so holds no jobs."""
        return _read(self._map, NAME_AT) or None

    @property
    def has_clean_exit(self) -> bool:
        """Whether the worker ended cleanly, whatever the exit code of its process."""
        return bool(self._map[CLEAN_EXIT_AT])

    @property
    def last_sample(self) -> StatusSample | None:
        """The latest status of the worker; None if there is none, or it was written only in part."""
        length, checksum = STATUS_HEADER.unpack_from(self._map, STATUS_AT)
        start = STATUS_AT + STATUS_HEADER.size
        data = self._map[start : start + length]
        if not data or crc32(data) != checksum:
            return None
        fields = json.loads(data)
        at, summary = fields.pop("at"), Summary(**fields.pop("summary"))
        return StatusSample(at=at, status=WorkerStatus(**fields, summary=summary))

    def unfinished_entries(self) -> list[str] | None:
        """Return the entries of jobs that were started and have not ended; None if the entries are incomplete.

        For a dead worker only. `job_ids_of_source` extracts the ids of one source.
        """
        if self._map[OVERFLOW_AT]:
            return None
        entries = (_read(self._map, offset) for offset in range(ENTRIES_AT, SIZE, ENTRY_SIZE))
        return [entry for entry in entries if entry]

    def close(self) -> None:
        self._map.close()


def job_ids_of_source(source_index: int, entries: Iterable[str]) -> list[str]:
    """Return the job ids of one source; the same id in another source is a different job."""
    parts = (entry.rpartition(SEPARATOR) for entry in entries)
    return [id for number, _, id in parts if int(number or 0) == source_index]


def _write(map: mmap.mmap, offset: int, text: bytes) -> None:
    """Write a text, then its length. A text without a length does not count."""
    start = offset + LENGTH.size
    map[start : start + len(text)] = text
    LENGTH.pack_into(map, offset, len(text))


def _read(map: mmap.mmap, offset: int) -> str:
    (length,) = LENGTH.unpack_from(map, offset)
    start = offset + LENGTH.size
    return map[start : start + length].decode()
