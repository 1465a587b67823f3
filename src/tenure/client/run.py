"""The run of a job by a worker, as its handler sees it."""

from asyncio import CancelledError
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tenure.client.claim import Claim, Holder
from tenure.client.keeper import Lease
from tenure.core.answers import Answer, Cancel
from tenure.core.checks import reject_unknown_options
from tenure.core.job import Job, Outcome, Progress
from tenure.core.operations import Settlement
from tenure.core.transitions import build_cancellation, build_release, fails_on_next_crash
from tenure.errors import NoClaim

if TYPE_CHECKING:
    from tenure.worker.handler import Handler


class StopReason(StrEnum):
    """Why a handler is asked to end before it is done."""

    LOST = "the claim was lost"
    CANCEL = "a cancel was requested"
    TIME_LIMIT = "the time limit was exceeded"
    SHUTDOWN = "the worker is stopping"


class TaskInterrupted(BaseException):
    """Raised in a synchronous handler whose time limit has passed, or whose worker ends and waits no longer.

    No Exception, so that a handler which catches those does not go on by mistake.
    """


class Run(Claim):
    """The claim of a job that a worker runs: what `tenure.current()` returns.

    The worker settles it by how the handler ends, unless the handler has settled it by itself, as in a transaction.
    """

    __slots__ = ("claimed_at", "handler", "is_worker_stopping", "slot", "started_at", "stop_reason")

    handler: "Handler"

    def __init__(self, holder: Holder, job: Job, lease: Lease) -> None:
        super().__init__(holder, job, lease)
        self.stop_reason: StopReason | None = None
        self.is_worker_stopping = False
        self.slot: object = None
        self.claimed_at = lease.sent_at
        self.started_at: float | None = None

    def rejection(self, now: float) -> Settlement | None:
        """Return how to settle a run that must not begin: it may be another's by now, or was stopped before."""
        lease = self.lease
        if lease.cancel_requested:
            return build_cancellation(lease.hold)
        is_late = now >= lease.valid_until or lease.is_over or self.stop_reason is not None
        return build_release(lease.hold) if is_late else None

    @property
    def runs_isolated(self) -> bool:
        """Whether one more crash fails the job: then it runs with no other beside it, and is not failed by that one."""
        return fails_on_next_crash(self.job)

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, if it did."""
        return self._outcome

    def record_outcome(self, outcome: Outcome) -> None:
        """Take in that the worker has settled this."""
        self._outcome = outcome

    def settlement_for_error(self, error: BaseException | None) -> Settlement:
        """Return the settlement that an exception asks for, by the task's policy, as the worker does."""
        is_of_the_task = isinstance(error, Exception) and not isinstance(error, Answer)
        is_stop = isinstance(error, CancelledError | TaskInterrupted) and self.stop_reason is not None
        if error is not None and (is_of_the_task or is_stop):
            return self.handler.settlement_for_error(self, error)
        return super().settlement_for_error(error)

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.job.attempts

    @property
    def idempotency_key(self) -> str:
        """What to send along to others who tell repeated requests apart: the same in every attempt of this job."""
        return self.job.id

    @property
    def found_done(self) -> bool:
        """Whether the work was found to be done; only that of a row can be."""
        return False

    @property
    def row(self) -> Any:
        """The row that it is of, for a handler of a table."""
        raise self._no_row_error()

    def already_done(self) -> bool:
        """Ask whether the work of the row is done, as the `done_if` of its table says, now."""
        raise self._no_row_error()

    def _no_row_error(self) -> NoClaim:
        return NoClaim(f"job {self.id!r} is not a row of a table; use tenure.current().job.payload")

    @property
    def is_stopping(self) -> bool:
        """Whether the handler should end soon: a cancel, the clock or the worker asks for it, or the claim is lost.

        While the worker stops, its handlers may still end as they would; one that would take longer than the grace may
        raise `tenure.Snooze(0)` where it can go on later.
        """
        return self.is_worker_stopping or self.stop_reason is not None or self.is_lost or self.cancel_requested

    def raise_if_stopping(self) -> None:
        """Leave the handler here if it must end: for synchronous handlers that work for long."""
        if self.is_lost:
            raise self.lost_error()
        if self.cancel_requested:
            raise Cancel
        if self.stop_reason is not None:
            raise TaskInterrupted(self.stop_reason)

    @reject_unknown_options
    def progress(self, done: float, *, of: float | None = None, note: str | None = None) -> None:
        """Show how far the work has come. This does not wait: it is sent a moment later, the latest of several."""
        progress = Progress(done=done, of=of, note=note)
        self.require_held()
        self._holder.keeper.report(self.lease, progress)


CURRENT_RUN: ContextVar[Run | None] = ContextVar("tenure_current", default=None)


def current() -> Run:
    """Return the run of the job that this code belongs to."""
    run = CURRENT_RUN.get()
    if run is None:
        raise NoClaim(
            "no job is running here: call tenure.current() in a handler that a worker runs; in a unit test use "
            "`with tenure.testing.claim():`"
        )
    return run
