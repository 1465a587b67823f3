"""Control the processes of the demo: start the supervisor, freeze, resume and kill workers, and always clean up.

This process is the parent of the supervisor only. It finds the workers in the registry of the store.
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
from tenure.cli.demo.app import STARTS_VARIABLE
from tenure.cli.demo.traces import starts_path

WORKERS = 4
CONCURRENCY = 4
LEASE = 6.0
"""Seconds. Longer than the supervisor needs to reap the claims of a killed worker, even on a slow machine."""
LOCK_TIMEOUT = 30.0
"""Seconds to wait for other writers. Four writers on a slow disk can take long."""
STOP_DELAY = 0.5
"""Seconds to wait after SIGSTOP where the system does not show the state of threads."""
GRACE = 2.0
"""Seconds for a worker to finish its runs at a stop."""
SUPERVISOR_STOP_MARGIN = 8.0
"""Additional seconds for the supervisor to end."""
LOG_LINE = re.compile(r"\d\d:\d\d:\d\d |\s")
"""Matches the first line of a log record, or a continuation line."""


class WorkerFailed(Exception):  # noqa: N818 - named after the fact
    """A process of the demo ended unexpectedly."""


class WorkerState(StrEnum):
    WORKING = "works"
    KILLED = "killed"
    FROZEN = "frozen"


@dataclass(slots=True)
class WorkerProcess:
    """A worker process, numbered in the order of its start."""

    number: int
    name: str
    pid: int
    state: WorkerState = WorkerState.WORKING

    def __str__(self) -> str:
        return f"worker {self.number} (pid {self.pid})"

    def freeze(self) -> None:
        """Stop the process with SIGSTOP; return when all its threads have stopped."""
        # Set first: after an interrupt, the clean-up resumes all frozen workers.
        self.state = WorkerState.FROZEN
        self._send(signal.SIGSTOP)
        wait_until_stopped(self.pid)

    def resume(self) -> None:
        self._send(signal.SIGCONT)
        self.state = WorkerState.WORKING

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        self.state = WorkerState.KILLED

    def _send(self, number: signal.Signals) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            raise WorkerFailed(f"{self} has ended unexpectedly") from None


def wait_until_stopped(pid: int) -> None:
    """Wait until SIGSTOP has taken effect.

    A thread runs on until it is scheduled and sees the signal, which takes a while on a busy machine. It may still
    take a lock.
    """
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():
        time.sleep(STOP_DELAY)
    with suppress(OSError):
        while any(_thread_state(each) in "RSD" for each in threads.iterdir()):
            time.sleep(0.01)


def _thread_state(thread: Path) -> str:
    _, _, after_name = (thread / "stat").read_text().rpartition(") ")
    return after_name[0]


class WorkerGroup:
    """A supervisor and its workers. Their log is a file beside the store."""

    def __init__(self, path: Path) -> None:
        self.workers: list[WorkerProcess] = []
        """All registered workers, including ended workers."""
        self._log = path.with_suffix(".log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                supervisor_command(path),
                # The supervisor stops when the pipe closes, so it never outlives the demo.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, STARTS_VARIABLE: str(starts_path(path)), "NO_COLOR": "1"},
                # Ctrl-C in the terminal must not reach the supervisor.
                process_group=0,
            )

    def add_registered(self, registered: Iterable[tenure.WorkerInfo]) -> None:
        """Add newly registered workers."""
        known = {each.name for each in self.workers}
        for each in sorted(registered, key=lambda each: each.started_at):
            if each.name not in known:
                self.workers.append(WorkerProcess(len(self.workers) + 1, each.name, each.pid))

    def numbers_of(self, names: Iterable[str | None]) -> str:
        """Return the numbers of the workers with these names, separated by commas."""
        wanted = set(names)
        return ", ".join(str(each.number) for each in self.workers if each.name in wanted)

    def running(self) -> list[WorkerProcess]:
        return [each for each in self.workers if each.state is WorkerState.WORKING]

    def check(self) -> None:
        """Raise if a process ended unexpectedly."""
        if self._process.poll() is not None:
            raise WorkerFailed(f"the supervisor ended with code {self._process.returncode}{self._last_output()}")
        if sum(each.state is not WorkerState.KILLED for each in self.workers) > WORKERS:
            raise WorkerFailed(f"a worker ended unexpectedly and was replaced{self._last_output()}")

    def stop(self) -> None:
        """Stop the supervisor and its workers. Raise if the supervisor does not end in time, or fails."""
        self._process.terminate()
        try:
            code = self._process.wait(GRACE + SUPERVISOR_STOP_MARGIN)
        except subprocess.TimeoutExpired:
            raise WorkerFailed(
                f"the supervisor did not end within {GRACE + SUPERVISOR_STOP_MARGIN:g} s{self._last_output()}"
            ) from None
        if code != 0:
            raise WorkerFailed(f"the supervisor ended with code {code}{self._last_output()}")

    def clean_up(self) -> None:
        """End all remaining processes, also after an error."""
        for each in self.workers:
            if each.state is WorkerState.FROZEN:
                # The worker may have ended already.
                with suppress(WorkerFailed):
                    each.resume()
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE + SUPERVISOR_STOP_MARGIN)
        # Workers end by themselves when their supervisor is gone.
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _last_output(self) -> str:
        """Return the last line of the output that is not a log record, or else the last log line."""
        lines = self._log.read_text(errors="replace").splitlines()
        reasons = [line for line in lines if not LOG_LINE.match(line)]
        return f": {(reasons or lines)[-1]}" if lines else ""


def supervisor_command(path: Path) -> list[str]:
    """Return the command line of the supervisor for this store."""
    options = {
        "--url": url_of(path),
        "--processes": WORKERS,
        "--concurrency": CONCURRENCY,
        "--lease": LEASE,
        "--grace": GRACE,
        "--log-level": "info",
    }
    arguments = [f"{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "tenure.cli", "work", "tenure.cli.demo.app:jobs", *arguments, "--until-eof"]


def url_of(path: Path, *, timeout: float = LOCK_TIMEOUT) -> str:
    """Return the URL of the store in this file; `timeout` is how long to wait for other writers."""
    return f"{short_url(path)}?timeout={timeout:g}"


def short_url(path: Path) -> str:
    """Return the URL as a user would write it."""
    return f"sqlite:///{quote(str(path))}"


@contextmanager
def start_workers(path: Path) -> Iterator[WorkerGroup]:
    """Start a supervisor and its workers on this store. Leaving the block ends all of them."""
    group = WorkerGroup(path)
    try:
        yield group
    finally:
        group.clean_up()
