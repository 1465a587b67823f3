"""The folder that the processes of a run share: the witness of all runs, log lines, and signals as files."""

import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PATIENCE = 60.0
"""Seconds for which a handler or a worker waits for a file."""


class LogLine(NamedTuple):
    level: str
    worker: str
    text: str


class Board:
    """Each worker writes to its own files, in one system call for each line."""

    def __init__(self, folder: Path, worker: str = "main") -> None:
        self.folder = folder
        self.worker = worker
        self._runs: int | None = None

    def record_run(self, id: str, fence: int) -> None:
        """Record that a handler runs. Nothing of tenure is involved."""
        if self._runs is None:
            self._runs = os.open(self.folder / f"{self.worker}.runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(self._runs, f"{id} {fence}\n".encode())

    def runs(self) -> dict[str, list[int]]:
        """Return the fences of the runs of each member."""
        found: dict[str, list[int]] = defaultdict(list)
        for path in sorted(self.folder.glob("*.runs")):
            for line in path.read_text().splitlines():
                id, fence = line.split()
                found[id].append(int(fence))
        return found

    def log_lines(self) -> dict[str, list[LogLine]]:
        """Return the log lines by the id of the member; lines without an id have an empty one."""
        found: dict[str, list[LogLine]] = defaultdict(list)
        for path in sorted(self.folder.glob("*.log")):
            for line in path.read_text().splitlines():
                level, ids, text = json.loads(line)
                for id in ids:
                    found[id].append(LogLine(level, path.stem, text))
        return found

    def log_handler(self) -> logging.Handler:
        """Return a handler that writes warnings and errors to the log of this worker."""
        handler = logging.FileHandler(self.folder / f"{self.worker}.log")
        handler.setFormatter(_LineFormatter())
        handler.setLevel(logging.WARNING)
        return handler

    def set(self, signal: str) -> None:
        (self.folder / signal).touch()

    def is_set(self, signal: str) -> bool:
        return (self.folder / signal).exists()

    def wait_for(self, signal: str) -> None:
        wait_until(lambda: self.is_set(signal), PATIENCE, f"signal {signal!r}", pause=0.01)


class _LineFormatter(logging.Formatter):
    """Writes level, ids of the jobs and text as JSON, without tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" [{type(record.exc_info[1]).__name__}]"
        ids = getattr(record, "jobs", [getattr(record, "job", "")])
        return json.dumps([record.levelname, ids, text[:1000]])


def wait_until(condition: Callable[[], bool], timeout: float, what: str, pause: float = 0.05) -> None:
    """Wait until the condition holds, or raise `TimeoutError`."""
    ends_at = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > ends_at:
            raise TimeoutError(f"{what} not reached within {timeout:g} s")
        time.sleep(pause)
