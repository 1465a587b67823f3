"""A worker process, as its supervisor has it in hand."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum

from tenure.supervisor.supervisor_link import VARIABLE
from tenure.worker.started_jobs import LedgerReader, Pulse, new_ledger_file
from tenure.worker.status import Vitals
from tenure.worker.summary import Summary

APART = 0.2
"""Seconds between two signals, so that they arrive as two."""
SILENT = 2.0
"""Seconds without a pulse after which a child counts as quiet."""
WELL = {0, 1, 3}
"""The exit codes of a worker that ended in order, whatever it says about its jobs."""


class Reason(StrEnum):
    """Why a child is told to end."""

    STOP = "the supervisor stops"
    RECYCLE = "it is to be replaced"
    RELOAD = "its source has changed"


class Child:
    """Only its supervisor tells it to end: the terminal's Ctrl-C does not reach it. Without one, it ends by itself."""

    def __init__(self, command: Sequence[str], grace: float, margin: float, now: float) -> None:
        self.reason: Reason | None = None
        """Why it was told to end, if it was."""
        self.was_killed = False
        self.started_at = now
        self._grace, self._margin = grace, margin
        self._wanted = self._sent = 0
        self._is_retiring = False
        self._sent_at = self._ends_at = now
        self._pulse: Pulse | None = None
        ledger = new_ledger_file()
        lifeline, self._lifeline = os.pipe()
        try:
            self._ledger = LedgerReader(ledger)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                env={**os.environ, VARIABLE: f"{ledger},{lifeline}"},
                pass_fds=(ledger, lifeline),
                process_group=0,
            )
        except OSError:
            os.close(self._lifeline)
            raise
        finally:
            os.close(ledger)
            os.close(lifeline)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def name(self) -> str | None:
        """The name of its worker; None if it has not got so far, and holds nothing."""
        return self._ledger.name

    @property
    def is_ready(self) -> bool:
        """Whether its worker has begun to work."""
        return self._pulse is not None and self._pulse.vitals.is_ready

    @property
    def has_worked(self) -> bool:
        """Whether its worker has something to do, or had."""
        return self._pulse is not None and (self._pulse.vitals.running > 0 or self.ended_runs > 0)

    @property
    def summary(self) -> Summary:
        return Summary() if self._pulse is None else self._pulse.vitals.summary

    @property
    def ended_runs(self) -> int:
        """How many handlers have ended; what was given back did not run to its end."""
        did = self.summary
        return did.completed + did.failed + did.retried + did.snoozed + did.cancelled + did.lost

    def vitals(self, now: float) -> Vitals | None:
        """Return what its worker told of itself. One that tells nothing any more is quiet since then."""
        if self._pulse is None:
            return None
        vitals, silent_for = self._pulse.vitals, now - self._pulse.at
        return replace(vitals, quiet_for=silent_for) if silent_for > max(SILENT, vitals.quiet_for) else vitals

    def started(self) -> list[str] | None:
        """Return the jobs that it had started, now that it is dead; None if that is not known."""
        return self._ledger.started()

    def code(self) -> int | None:
        """Return its exit code, if it has ended; the negative number of a signal, if that ended it."""
        if self._is_dead() and not self._ledger.is_sealed:
            # Before it is waited for: as long as it is not, no other process has its number.
            self._end_group()
        code = self._process.poll()
        self._pulse = self._ledger.pulse or self._pulse
        return code

    def has_ended_well(self, code: int) -> bool:
        """Whether its worker has ended in order; the exit code alone could be that of a handler.

        One that was told to end may then be ended by a second signal, on its way out.
        """
        return self._ledger.is_sealed and (code in WELL or self.reason is not None)

    def tell_to_end(self, reason: Reason, *, now: bool = False) -> None:
        """Have it told: once, or, if it is not to wait for its handlers, twice."""
        if self.reason is not Reason.STOP:
            self.reason = reason
        if reason is Reason.RECYCLE:
            self._retire()
        else:
            self._wanted = max(self._wanted, 2 if now else 1)

    def _retire(self) -> None:
        """Ask it to end when its handlers have: what they run could take longer than the grace each time anew."""
        if not self._is_retiring:
            self._is_retiring = True
            with suppress(OSError):  # it is dead
                os.write(self._lifeline, b"\n")

    def press(self, now: float) -> None:
        """Send it what it is to be told; kill it if its time is over."""
        if self._sent < self._wanted and (self._sent == 0 or now >= self._sent_at + APART):
            if self._sent == 0:
                self._ends_at = now + self._grace + self._margin
            else:
                self._ends_at = min(self._ends_at, now + self._margin)
            self._sent, self._sent_at = self._sent + 1, now
            self._process.terminate()
        elif self._sent and now >= self._ends_at and not self.was_killed:
            self.was_killed = True
            self.kill()

    def kill(self) -> None:
        """End it, and what its handlers have started in its group: their jobs are about to be another's."""
        if self._process.poll() is None:
            self._end_group()

    def _is_dead(self) -> bool:
        is_awaited = self._process.returncode is None
        return is_awaited and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _end_group(self) -> None:
        # Not permitted: macOS says so of a group in which nobody lives.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Give back what was shared with it. If it still runs, it takes this for the end of its supervisor."""
        os.close(self._lifeline)
        self._ledger.close()


def said(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
