"""The supervisor and its workers, as this process has them in hand: started, frozen, thawed, killed, ended in any case.

This process is the parent of the supervisor alone. The workers are known by what they tell the store of themselves.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import tenure
from tenure.cli.demo.app import STARTS
from tenure.cli.demo.traces import starts_beside

WORKERS = 4
CONCURRENCY = 4
LEASE = 6.0
"""Seconds. Longer than it takes to take back what a killed worker held, even on a slow machine."""
PATIENCE = 30.0
"""Seconds to wait for other writers; on a slow disk, with four of them, that can be long."""
STOPPING = 0.5
"""Seconds until a process that was told to stop has stopped, where the system does not tell of its threads."""
GRACE = 2.0
"""Seconds that a worker may take to end its runs when it is told to end."""
MARGIN = 8.0
"""Seconds that the supervisor may take beyond that."""
LOGGED = re.compile(r"\d\d:\d\d:\d\d |\s")
"""How a line of a log begins, or what is below its first line."""


class WorkerFailed(Exception):  # noqa: N818 - it names the fact
    """A process ended that was not to."""


class Fate(StrEnum):
    WORKING = "works"
    KILLED = "killed"
    FROZEN = "frozen"


@dataclass(slots=True)
class Member:
    """One worker process, by the number in which it came."""

    number: int
    name: str
    pid: int
    fate: Fate = Fate.WORKING

    def __str__(self) -> str:
        return f"worker {self.number} (pid {self.pid})"

    def freeze(self) -> None:
        """Stop the worker at any point of its work; return when all its threads have stopped."""
        # First: if this is interrupted, it is thawed all the same.
        self.fate = Fate.FROZEN
        self._send(signal.SIGSTOP)
        until_stopped(self.pid)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)
        self.fate = Fate.WORKING

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        self.fate = Fate.KILLED

    def _send(self, number: signal.Signals) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            raise WorkerFailed(f"{self} is gone, and was not to be") from None


def until_stopped(pid: int) -> None:
    """Wait until a process that was told to stop has stopped.

    Each of its threads goes on until it has its turn, which takes a while on a busy machine: it may still take a lock.
    """
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():
        time.sleep(STOPPING)
    with suppress(OSError):
        while any(_state_of(each) in "RSD" for each in threads.iterdir()):
            time.sleep(0.01)


def _state_of(thread: Path) -> str:
    _, _, after_name = (thread / "stat").read_text().rpartition(") ")
    return after_name[0]


class Crew:
    """A supervisor of so many workers on this store. What they log goes into a file beside it."""

    def __init__(self, path: Path) -> None:
        self.members: list[Member] = []
        """All workers that have told of themselves, those that are no more included."""
        self._log = path.with_suffix(".log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command_on(path),
                # It ends with this pipe, and so with this process, whatever ends that.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, STARTS: str(starts_beside(path)), "NO_COLOR": "1"},
                # Out of reach of the terminal's Ctrl-C.
                process_group=0,
            )

    def meet(self, workers: Iterable[tenure.Worker]) -> None:
        """Take in those that are new."""
        known = {each.name for each in self.members}
        for each in sorted(workers, key=lambda each: each.started_at):
            if each.name not in known:
                self.members.append(Member(len(self.members) + 1, each.name, each.pid))

    def numbers_of(self, names: Iterable[str | None]) -> str:
        """Return the numbers of those with these names, as a sentence has them."""
        wanted = set(names)
        return ", ".join(str(each.number) for each in self.members if each.name in wanted)

    def working(self) -> list[Member]:
        return [each for each in self.members if each.fate is Fate.WORKING]

    def check(self) -> None:
        """Raise if a process ended that was not to."""
        if self._process.poll() is not None:
            raise WorkerFailed(f"the supervisor ended with code {self._process.returncode}{self._last_words()}")
        if sum(each.fate is not Fate.KILLED for each in self.members) > WORKERS:
            raise WorkerFailed(f"a worker ended that was not to, and was replaced{self._last_words()}")

    def end(self) -> None:
        """Tell the supervisor to end, and wait until it has, with its workers; raise if it did not, or not well."""
        self._process.terminate()
        try:
            code = self._process.wait(GRACE + MARGIN)
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"the supervisor did not end within {GRACE + MARGIN:g} s{self._last_words()}") from None
        if code != 0:
            raise WorkerFailed(f"the supervisor ended with code {code}{self._last_words()}")

    def clear_away(self) -> None:
        """End what is left, however it is."""
        for each in self.members:
            if each.fate is Fate.FROZEN:
                # It may be gone, and then that is all right.
                with suppress(WorkerFailed):
                    each.thaw()
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE + MARGIN)
        # Workers without a supervisor end by themselves.
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _last_words(self) -> str:
        """Return what was last said of why something ended: by a process itself, or else in its log."""
        lines = self._log.read_text(errors="replace").splitlines()
        reasons = [line for line in lines if not LOGGED.match(line)]
        return f": {(reasons or lines)[-1]}" if lines else ""


def command_on(path: Path) -> list[str]:
    """Return the command that works on this store."""
    options = {
        "--url": url_of(path),
        "--processes": WORKERS,
        "--concurrency": CONCURRENCY,
        "--lease": LEASE,
        "--grace": GRACE,
        "--log-level": "info",
    }
    told = [f"{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "tenure.cli", "work", "tenure.cli.demo.app:jobs", *told, "--until-eof"]


def url_of(path: Path, *, timeout: float = PATIENCE) -> str:
    """Return the URL of the store in this file; `timeout` is how long to wait for other writers."""
    return f"{place_of(path)}?timeout={timeout:g}"


def place_of(path: Path) -> str:
    """Return the same as a user would write it."""
    return f"sqlite:///{quote(str(path))}"


@contextmanager
def crew_on(path: Path) -> Iterator[Crew]:
    """Start a supervisor and its workers on this store; on leaving, none is left."""
    crew = Crew(path)
    try:
        yield crew
    finally:
        crew.clear_away()
