"""Worker processes that a test starts, stops, freezes and kills."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.playing import ROOT
from tests.processes.stage import PATIENCE, Stage, until


class Member:
    """A worker process with options of `Jobs.work`."""

    def __init__(self, stage: Stage, number: int, options: dict[str, Any]) -> None:
        self._log = stage.folder / f"log-{number}"
        self._summary = stage.folder / f"summary-{number}"
        with self._log.open("wb") as log, self._summary.open("wb") as summary:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.processes.scenes", "work", str(stage.folder), json.dumps(options)],
                cwd=ROOT,
                stdout=summary,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def freeze(self) -> None:
        """Suspend the process; return once the process is suspended."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.code()

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def code(self) -> int:
        """Wait until the process ends; return its exit code."""
        return self._process.wait(PATIENCE)

    def summary(self) -> dict[str, int]:
        """Wait until the process ends; return the summary that the worker printed."""
        self.code()
        return {name: int(number) for name, number in json.loads(self._summary.read_text()).items()}

    def said(self, what: str) -> list[str]:
        """Return the log lines with the text."""
        return [line for line in self._log.read_text().splitlines() if what in line]

    def says(self, what: str) -> None:
        """Wait until the log contains the text."""
        until(lambda: self.said(what))

    def clear_away(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class Crew:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._members: list[Member] = []

    def start(self, **options: Any) -> Member:
        """Start a worker process."""
        self._members.append(Member(self._stage, len(self._members), options))
        return self._members[-1]

    def clear_away(self) -> None:
        for each in self._members:
            each.clear_away()


@contextmanager
def crew_on(stage: Stage) -> Iterator[Crew]:
    """Yield a crew; kill its remaining workers on exit."""
    crew = Crew(stage)
    try:
        yield crew
    finally:
        crew.clear_away()
