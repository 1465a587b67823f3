"""The worker processes, as their parent has them in hand: started, frozen, thawed, killed, and ended in any case."""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO

GRACE = 10.0
"""Seconds that a worker may take to end when it is told to."""


class WorkerFailed(Exception):  # noqa: N818 - it names the fact
    """A worker ended that was not to."""


class Fate(StrEnum):
    WORKING = "works"
    KILLED = "killed"
    FROZEN = "frozen"


class Member:
    """One worker process."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.fate = Fate.WORKING
        self._errors: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 - closed by `clear_away`
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tenure.demo.worker", str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Out of reach of the terminal's Ctrl-C. If the parent dies, the system wakes and ends a group that is
            # left behind frozen.
            process_group=0,
        )
        self._input, self._output = filter(None, (self._process.stdin, self._process.stdout))

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_ready(self) -> bool:
        """Whether it has the store open, and said so."""
        return bool(select.select([self._output], [], [], 0)[0])

    def check(self) -> None:
        """Raise if it ended, unless it was killed."""
        if self.fate is not Fate.KILLED and self._process.poll() is not None:
            raise WorkerFailed(self._last_words())

    def freeze(self) -> None:
        """Stop it wherever it is; return when it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        self.check()
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._process.returncode = os.waitstatus_to_exitcode(status)
            raise WorkerFailed(self._last_words())
        self.fate = Fate.FROZEN

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.fate = Fate.WORKING

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.fate = Fate.KILLED

    def tell_to_end(self) -> None:
        self._input.close()

    def wait(self) -> None:
        """Wait until it has ended as it was told; raise if it did not, or not well."""
        if self.fate is Fate.KILLED:
            return
        try:
            code = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"{self} was told to end, and did not within {GRACE:g} s") from None
        if code != 0:
            raise WorkerFailed(self._last_words())

    def clear_away(self) -> None:
        """End it, however it is; frozen ones can be killed too."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for each in (self._input, self._output, self._errors):
            each.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        return f"{self} ended with code {self._process.returncode}" + (f": {lines[-1]}" if lines else "")


class Crew(list[Member]):
    """All workers, those that are no more included."""

    def working(self) -> list[Member]:
        return [each for each in self if each.fate is Fate.WORKING]

    def check(self) -> None:
        """Raise if one ended that was not to."""
        for each in self:
            each.check()

    def end(self) -> None:
        """Tell all to end, and wait until they have."""
        for each in self:
            each.tell_to_end()
        for each in self:
            each.wait()


@contextmanager
def crew_of(number: int, path: Path) -> Iterator[Crew]:
    """Start so many workers on this file; on leaving, none is left."""
    crew = Crew()
    try:
        for n in range(1, number + 1):
            crew.append(Member(f"worker {n}", path))
        yield crew
    finally:
        for each in crew:
            each.clear_away()
