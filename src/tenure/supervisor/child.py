"""A worker process, as its supervisor has it in hand."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum

from tenure.supervisor.supervisor_link import VARIABLE
from tenure.worker.started_jobs import StartedJobsReader, StatusSample, new_shared_file
from tenure.worker.status import WorkerStatus
from tenure.worker.summary import Summary

SIGNAL_SPACING = 0.2
"""Seconds between two signals, so that they arrive as two."""
STATUS_TIMEOUT = 2.0
"""Seconds without a pulse after which a child counts as quiet."""
CLEAN_EXIT_CODES = {0, 1, 3}
"""The exit codes of a worker that ended in order, whatever it says about its jobs."""


class ChildStopReason(StrEnum):
    """Why a child is told to end."""

    STOP = "the supervisor is stopping"
    RECYCLE = "the process is being replaced"
    RELOAD = "the source has changed"


class Child:
    """Only its supervisor tells it to end: the terminal's Ctrl-C does not reach it. Without one, it ends by itself."""

    def __init__(self, command: Sequence[str], grace: float, kill_margin: float, now: float) -> None:
        self.reason: ChildStopReason | None = None
        """Why it was told to end, if it was."""
        self.was_killed = False
        self.started_at = now
        self._grace, self._kill_margin = grace, kill_margin
        self._signals_wanted = self._signals_sent = 0
        self._is_quiet = False
        self._signalled_at = self._kill_at = now
        self._sample: StatusSample | None = None
        shared_file = new_shared_file()
        read_end, self._pipe = os.pipe()
        try:
            self._started_jobs = StartedJobsReader(shared_file)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                env={**os.environ, VARIABLE: f"{shared_file},{read_end}"},
                pass_fds=(shared_file, read_end),
                process_group=0,
            )
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(shared_file)
            os.close(read_end)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def name(self) -> str | None:
        """The name of its worker; None if it has not got so far, and holds nothing."""
        return self._started_jobs.name

    @property
    def is_ready(self) -> bool:
        """Whether its worker has begun to work."""
        return self._sample is not None and self._sample.status.is_ready

    @property
    def has_worked(self) -> bool:
        """Whether its worker has something to do, or had."""
        return self._sample is not None and (self._sample.status.running > 0 or self.ended_runs > 0)

    @property
    def summary(self) -> Summary:
        return Summary() if self._sample is None else self._sample.status.summary

    @property
    def ended_runs(self) -> int:
        """How many handlers have ended; what was given back did not run to its end."""
        summary = self.summary
        return summary.completed + summary.failed + summary.retried + summary.snoozed + summary.cancelled + summary.lost

    def status(self, now: float) -> WorkerStatus | None:
        """Return what its worker told of itself. One that tells nothing any more is quiet since then."""
        if self._sample is None:
            return None
        status, silent_for = self._sample.status, now - self._sample.at
        return replace(status, quiet_for=silent_for) if silent_for > max(STATUS_TIMEOUT, status.quiet_for) else status

    def unfinished_entries(self) -> list[str] | None:
        """Return the jobs that it had started, now that it is dead; None if that is not known."""
        return self._started_jobs.unfinished_entries()

    def exit_code(self) -> int | None:
        """Return its exit code, if it has ended; the negative number of a signal, if that ended it."""
        if self._is_dead() and not self._started_jobs.has_clean_exit:
            # Before it is waited for: as long as it is not, no other process has its number.
            self._kill_group()
        code = self._process.poll()
        self._sample = self._started_jobs.last_sample or self._sample
        return code

    def has_clean_exit(self, code: int) -> bool:
        """Whether its worker has ended in order; the exit code alone could be that of a handler.

        One that was told to end may then be ended by a second signal, on its way out.
        """
        return self._started_jobs.has_clean_exit and (code in CLEAN_EXIT_CODES or self.reason is not None)

    def request_stop(self, reason: ChildStopReason, *, now: bool = False) -> None:
        """Have it told: once, or, if it is not to wait for its handlers, twice."""
        if self.reason is not ChildStopReason.STOP:
            self.reason = reason
        if reason is ChildStopReason.RECYCLE:
            self._quiet()
        else:
            self._signals_wanted = max(self._signals_wanted, 2 if now else 1)

    def _quiet(self) -> None:
        """Ask it to end when its handlers have: what they run could take longer than the grace each time anew."""
        if not self._is_quiet:
            self._is_quiet = True
            with suppress(OSError):  # the child is dead
                os.write(self._pipe, b"\n")

    def escalate_stop(self, now: float) -> None:
        """Send it what it is to be told; kill it if its time is over."""
        if self._signals_sent < self._signals_wanted and (
            self._signals_sent == 0 or now >= self._signalled_at + SIGNAL_SPACING
        ):
            if self._signals_sent == 0:
                self._kill_at = now + self._grace + self._kill_margin
            else:
                self._kill_at = min(self._kill_at, now + self._kill_margin)
            self._signals_sent, self._signalled_at = self._signals_sent + 1, now
            self._process.terminate()
        elif self._signals_sent and now >= self._kill_at and not self.was_killed:
            self.was_killed = True
            self.kill()

    def kill(self) -> None:
        """End it, and what its handlers have started in its group: their jobs are about to be another's."""
        if self._process.poll() is None:
            self._kill_group()

    def _is_dead(self) -> bool:
        is_awaited = self._process.returncode is None
        return is_awaited and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _kill_group(self) -> None:
        # Not permitted: macOS says so of a group in which nobody lives.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Give back what was shared with it. If it still runs, it takes this for the end of its supervisor."""
        os.close(self._pipe)
        self._started_jobs.close()


def describe_exit(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
