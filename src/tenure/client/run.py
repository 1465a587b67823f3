"""A run: the claim of a job in a worker, as the handler sees it."""

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
    """Why a worker stops a handler early."""

    LOST = "the claim was lost"
    CANCEL = "a cancel was requested"
    TIME_LIMIT = "the time limit was exceeded"
    SHUTDOWN = "the worker is stopping"


class TaskInterrupted(BaseException):
    """Raised in a sync handler that exceeds its time limit, or that still runs after the grace period of the worker.

    A BaseException, so that `except Exception` in a handler does not catch it by mistake.
    """


class Run(Claim):
    """The claim of a job that a worker runs. `tenure.current()` returns it.

    The worker settles the job by how the handler ends, unless the handler settled it, for example in a transaction.
    """

    __slots__ = (
        "claimed_at",
        "handler",
        "is_worker_stopping",
        "logged_reason",
        "resend_delay",
        "slot",
        "started_at",
        "stop_reason",
    )

    handler: "Handler"

    def __init__(self, holder: Holder, job: Job, lease: Lease) -> None:
        super().__init__(holder, job, lease)
        self.stop_reason: StopReason | None = None
        self.is_worker_stopping = False
        self.slot: object = None
        self.claimed_at = lease.sent_at
        self.started_at: float | None = None
        self.logged_reason: str | None = None
        self.resend_delay = 0.0

    def rejection(self, now: float) -> Settlement | None:
        """Return the settlement of a run that must not start: its claim may be lost, or it was stopped; else None."""
        lease = self.lease
        if lease.cancel_requested:
            return build_cancellation(lease.hold)
        is_late = now >= lease.valid_until or lease.is_over or self.stop_reason is not None
        return build_release(lease.hold) if is_late else None

    @property
    def runs_isolated(self) -> bool:
        """Whether one more crash fails the job. The worker then runs the job alone, so no other job can crash it."""
        return fails_on_next_crash(self.job)

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while it is not settled."""
        return self._outcome

    def record_outcome(self, outcome: Outcome) -> None:
        """Record that the worker settled the run."""
        self._outcome = outcome

    def settlement_for_error(self, error: BaseException | None) -> Settlement:
        """Return the settlement for an exception, by the task's policy, as the worker does."""
        is_task_error = isinstance(error, Exception) and not isinstance(error, Answer)
        is_stop = isinstance(error, CancelledError | TaskInterrupted) and self.stop_reason is not None
        if error is not None and (is_task_error or is_stop):
            return self.handler.settlement_for_error(self, error)
        return super().settlement_for_error(error)

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.job.attempts

    @property
    def idempotency_key(self) -> str:
        """A key for external services that deduplicate requests: the same in every attempt of the job."""
        return self.job.id

    @property
    def found_done(self) -> bool:
        """Whether a row of a table was found done; False for a job."""
        return False

    @property
    def row(self) -> Any:
        """The row as of the claim, in a handler of a table. Raises `NoClaim` for a job."""
        raise self._no_row_error()

    def already_done(self) -> bool:
        """Check now whether the work of the row is done, by the table's `done_if`. Raises `NoClaim` for a job."""
        raise self._no_row_error()

    def _no_row_error(self) -> NoClaim:
        return NoClaim(f"job {self.id!r} is not a row of a table; use tenure.current().job.payload")

    @property
    def is_stopping(self) -> bool:
        """Whether the handler should end soon: cancel requested, time limit, worker stopping, or claim lost.

        While the worker stops, a handler may still finish within the grace period. A longer handler can raise
        `tenure.Snooze(0)` at a point where a later run can continue.
        """
        return self.is_worker_stopping or self.stop_reason is not None or self.is_lost or self.cancel_requested

    def raise_if_stopping(self) -> None:
        """Raise if the handler must end. For long-running sync handlers.

        Raises `ClaimLost`, `tenure.Cancel` if a cancel was requested, or `tenure.TaskInterrupted` after the time limit
        or the grace period.
        """
        if self.is_lost:
            raise self.lost_error()
        if self.cancel_requested:
            raise Cancel
        if self.stop_reason is not None:
            raise TaskInterrupted(self.stop_reason)

    @reject_unknown_options
    def progress(self, done: float, *, of: float | None = None, note: str | None = None) -> None:
        """Report the progress of the job, for operators. Does not block: the keeper thread sends the progress."""
        progress = Progress(done=done, of=of, note=note)
        self.require_held()
        self._holder.keeper.report(self.lease, progress)


CURRENT_RUN: ContextVar[Run | None] = ContextVar("tenure_current", default=None)


def current() -> Run:
    """Return the run of the job that the calling code handles.

    Raises `NoClaim` outside of a handler.
    """
    run = CURRENT_RUN.get()
    if run is None:
        raise NoClaim(
            "no job is running here: call tenure.current() in a handler that a worker runs; in a unit test use "
            "`with tenure.testing.claim():`"
        )
    return run
