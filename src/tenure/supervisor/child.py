"""Start, stop and monitor one worker process."""

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
"""Seconds between two signals, so that the system does not merge them."""
STATUS_TIMEOUT = 2.0
"""Seconds without a status report after which a child counts as blocked."""
CLEAN_EXIT_CODES = {0, 1, 3}
"""Exit codes of a worker that ended cleanly, whatever the outcome of its jobs."""


class ChildStopReason(StrEnum):
    """Why the supervisor stops a child."""

    STOP = "the supervisor is stopping"
    RECYCLE = "the process is being replaced"
    RELOAD = "the source has changed"


class Child:
    """A worker process in its own process group: Ctrl-C does not reach it. It stops if the supervisor dies."""

    def __init__(self, command: Sequence[str], grace: float, kill_margin: float, now: float) -> None:
        self.reason: ChildStopReason | None = None
        """Why the supervisor is stopping the child; None if it is not."""
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
        """The name of the worker; None if the worker does not exist yet, and so holds no jobs."""
        return self._started_jobs.name

    @property
    def is_ready(self) -> bool:
        """Whether the worker has started."""
        return self._sample is not None and self._sample.status.is_ready

    @property
    def has_worked(self) -> bool:
        """Whether the worker is running or has run a job."""
        return self._sample is not None and (self._sample.status.running > 0 or self.ended_runs > 0)

    @property
    def summary(self) -> Summary:
        return Summary() if self._sample is None else self._sample.status.summary

    @property
    def ended_runs(self) -> int:
        """The number of handlers that have ended, without released runs, which did not run to their end."""
        summary = self.summary
        return summary.completed + summary.failed + summary.retried + summary.snoozed + summary.cancelled + summary.lost

    def status(self, now: float) -> WorkerStatus | None:
        """Return the latest status of the worker. Without recent reports, `blocked_for` counts from the last one."""
        if self._sample is None:
            return None
        status, silent_for = self._sample.status, now - self._sample.at
        return (
            replace(status, blocked_for=silent_for) if silent_for > max(STATUS_TIMEOUT, status.blocked_for) else status
        )

    def unfinished_entries(self) -> list[str] | None:
        """Return the entries of jobs that a dead child had started; None if they are not known."""
        return self._started_jobs.unfinished_entries()

    def exit_code(self) -> int | None:
        """Return the exit code, if the child has exited; a negative signal number, if a signal killed it."""
        if self._is_dead() and not self._started_jobs.has_clean_exit:
            # Kill the group before `poll` reaps the process: until then the system does not reuse its id.
            self._kill_group()
        code = self._process.poll()
        self._sample = self._started_jobs.last_sample or self._sample
        return code

    def has_clean_exit(self, code: int) -> bool:
        """Return whether the worker ended cleanly. The exit code alone is no proof: a handler may have called `exit`.

        A child that is being stopped may still be killed by a second signal while it exits.
        """
        return self._started_jobs.has_clean_exit and (code in CLEAN_EXIT_CODES or self.reason is not None)

    def request_stop(self, reason: ChildStopReason, *, now: bool = False) -> None:
        """Request one SIGTERM, or two to skip the grace period; to recycle, make the worker quiet instead."""
        if self.reason is not ChildStopReason.STOP:
            self.reason = reason
        if reason is ChildStopReason.RECYCLE:
            self._quiet()
        else:
            self._signals_wanted = max(self._signals_wanted, 2 if now else 1)

    def _quiet(self) -> None:
        """Make the worker quiet: recycling must not interrupt jobs that take longer than the grace period."""
        if not self._is_quiet:
            self._is_quiet = True
            with suppress(OSError):  # the child is dead
                os.write(self._pipe, b"\n")

    def escalate_stop(self, now: float) -> None:
        """Send the next requested signal; kill the child if its time is over."""
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
        """Kill the child and the processes of its handlers in its group: other workers are about to run the jobs."""
        if self._process.poll() is None:
            self._kill_group()

    def _is_dead(self) -> bool:
        is_awaited = self._process.returncode is None
        return is_awaited and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _kill_group(self) -> None:
        # macOS raises PermissionError for a group without live processes.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the shared files. A child that still runs then stops, as if the supervisor had died."""
        os.close(self._pipe)
        self._started_jobs.close()


def describe_exit(code: int) -> str:
    """Return an exit code as text."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
