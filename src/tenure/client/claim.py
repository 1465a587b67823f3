"""A claim: the exclusive, leased right to run one job."""

import logging
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tenure.backends.protocol import Claiming, TransactionOperations
from tenure.backends.shared import process
from tenure.client.keeper import Keeper, Lease
from tenure.client.settling import BUSY_TIMEOUT, extend, settle, unextended_text, unsettled_text
from tenure.client.transaction import Transaction, require_transactional
from tenure.core import checks, transitions
from tenure.core.answers import Answer
from tenure.core.backoff import Backoff, Random
from tenure.core.checks import Seconds, reject_unknown_options
from tenure.core.error_summary import summarize_exception
from tenure.core.job import Job, Outcome, Progress, State
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import (
    BUSY,
    Extension,
    Hold,
    HoldStatus,
    Query,
    Settled,
    Settlement,
    Unsettled,
    check_lease,
)
from tenure.core.payload import MAX_JSON_BYTES
from tenure.errors import ClaimLost, ConfigurationError, InvalidPayload, StoreUnavailable, TenureError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from tenure.client.aio.claims import AsyncClaim, AsyncSourceFacade

log = logging.getLogger(__name__)

ROLLED_BACK = "the transaction that completed the job was rolled back"
TAKEN_OVER = "another claim, a reaper or an operator took the job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What all claims of a source share: the store, the keeper and the retry policy."""

    store: Claiming
    keeper: Keeper
    backoff: Backoff
    random: Random
    facade: "Callable[[], AsyncSourceFacade | None]" = lambda: None
    """Returns the async facade whose threads run async calls; with None, each call runs in a new thread."""


class Claim:
    """A job held under a lease. As a context manager it extends the lease, and completes the job on exit.

    If an exception leaves the block, the attempt fails (retry or `failed`, by the job's policy) and the exception
    propagates. An interruption such as `KeyboardInterrupt` or `CancelledError` releases the job. `tenure.Retry`,
    `Snooze`, `Fail` and `Cancel` settle the job and do not propagate. After an explicit settlement, the exit does
    nothing more. Set `result` to store a result with the completion.

    Every settlement raises `ClaimLost` if the job is no longer held, and then writes nothing. It raises
    `StoreUnavailable` if the store does not respond; repeat the same call to learn whether it was recorded.
    """

    __slots__ = (
        "_holder",
        "_joined_transaction",
        "_lock",
        "_outcome",
        "_process",
        "job",
        "lease",
        "result",
        "unconfirmed",
        "unsettled",
    )

    def __init__(self, holder: Holder, job: Job, lease: Lease) -> None:
        self.job = job
        self.lease = lease
        self.result: Any = None
        self.unconfirmed: Settlement | None = None
        self.unsettled: tuple[Settlement, Unsettled] | None = None
        self._holder = holder
        self._lock = threading.Lock()
        self._outcome: Outcome | None = None
        self._joined_transaction: TransactionOperations | None = None
        self._process = process.current_process()

    def __repr__(self) -> str:
        status = self._outcome or ("lost" if self.is_lost else "held")
        return f"<Claim of job {self.job.id!r}, type {self.job.type!r}, fence {self.fence}: {status}>"

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def fence(self) -> int:
        return self.lease.hold.fence

    @property
    def token(self) -> str:
        return self.lease.hold.token

    @property
    def is_lost(self) -> bool:
        """Whether another worker may hold the job. Turns true before the store can reap the lease."""
        return not self.is_settled and self.lease.is_lost

    @property
    def is_settled(self) -> bool:
        return self._outcome is not None

    @property
    def cancel_requested(self) -> bool:
        """Whether an operator requested a cancel, as of the last extension of the lease."""
        return self.lease.cancel_requested

    @property
    def aio(self) -> "AsyncClaim":
        """The async facade: the same methods as coroutines."""
        from tenure.client.aio.claims import AsyncClaim

        return AsyncClaim(self, self._holder.facade)

    def has_unknown_outcome(self) -> bool:
        """Whether it is unknown if a settlement took effect: no response, or a caller's transaction not yet checked."""
        return self._joined_transaction is not None or self.unconfirmed is not None

    def needs_commit_check(self) -> bool:
        """Whether the caller's transaction that completed the job has ended, and its result is not yet read."""
        return self._joined_transaction is not None and not self._joined_transaction.is_open()

    def is_in_this_process(self) -> bool:
        """Whether this process made the claim. A forked child does not hold its parent's claims."""
        return process.current_process() is self._process

    def record_settlement(self, settlement: Settlement, settled: Settled) -> None:
        """Record the store's response to a settlement of this claim."""
        self.unconfirmed = self.unsettled = self._joined_transaction = None
        if settled:
            self._outcome = settlement.outcome
        elif isinstance(settled, Unsettled) and settled.is_failed:
            self._outcome = Outcome.FAILED
        self._holder.keeper.end(self.lease)

    def settlement_for_error(self, error: BaseException | None) -> Settlement:
        """Return the settlement for an exception; a release if `error` is None."""
        if isinstance(error, Answer):
            return self._settlement_for_answer(error)
        # A BaseException such as KeyboardInterrupt or CancelledError is not the job's fault.
        return self.failure(error) if isinstance(error, Exception) else transitions.build_release(self.lease.hold)

    def settlement_for_result(self, result: Any) -> tuple[Settlement, TenureError | None]:
        """Return the settlement for a result or an answer, and an error to report, if any."""
        if isinstance(result, Answer):
            return self._settlement_for_answer(result), None
        if isinstance(result, type) and issubclass(result, Answer):
            mistake = ConfigurationError(
                f"the result is the class {result.__name__}; use an instance, such as tenure.Retry()"
            )
            return self.failure(mistake), mistake
        try:
            return self.completion(result), None
        except InvalidPayload as exc:
            # The work is done: an invalid result must not cause another run.
            return (
                self.completion_without_result(),
                InvalidPayload(f"job {self.id!r} is completed, but {exc}"),
            )

    def completion(self, result: Any = None) -> Settlement:
        """Return the settlement that completes the job. Logs a warning if the result is too long and is dropped."""
        completion = transitions.build_completion(self.lease.hold, result)
        if completion.result_dropped:
            log.warning(
                "result of job %s dropped: more than %s bytes of JSON",
                self.id,
                f"{MAX_JSON_BYTES:,}",
                extra=job_log_fields(self.job),
            )
        return completion

    def completion_without_result(self) -> Settlement:
        """Return the settlement that completes the job and marks its result as dropped."""
        return transitions.build_completion_without_result(self.lease.hold)

    def failure(self, why: str | BaseException, *, final: bool = False) -> Settlement:
        """Return the settlement for a failed attempt: a retry after the back-off, or `failed`."""
        error = _traceback_text(why) if isinstance(why, BaseException) else why
        holder = self._holder
        return transitions.build_failure(
            self.lease.hold, self.job, error, final=final, backoff=holder.backoff, random=holder.random
        )

    @reject_unknown_options
    def complete(self, result: Any = None, *, connection: object = None) -> None:
        """Complete the job. `result` is JSON of at most 256 KiB.

        With `connection`, the completion is part of that connection's transaction and is rolled back with it. Make it
        the last statement before the commit.
        """
        settlement = self.completion(result)
        if connection is None:
            self.settle(settlement)
        else:
            self._complete_in_transaction(settlement, connection)

    def transaction(self) -> Transaction:
        """Return a context manager that yields a connection to the store's database, inside a transaction.

        On exit the job is completed with `claim.result` in the same transaction, so the writes of the block and the
        completion commit together. If the claim is lost or an exception leaves the block, the transaction is rolled
        back; the exception is recorded on the job as by `with claim`. Pass the connection to `enqueue` to enqueue jobs
        in the same transaction. On SQLite the block holds the write lock: keep it short.
        """
        return self.transaction_on(None)

    def transaction_on(self, loop: "AbstractEventLoop | None") -> Transaction:
        """Return the transaction for a caller on an event loop; it is entered and left in a thread."""
        return Transaction(self, require_transactional(self._holder.store), self._holder.keeper, loop)

    @reject_unknown_options
    def fail(self, why: str | BaseException, *, final: bool = False) -> None:
        """Fail the attempt: queue the job again after the back-off, or fail it if `final` or without attempts left."""
        self.settle(self.failure(why, final=final))

    @reject_unknown_options
    def retry(self, delay: Seconds | None = None, *, why: str | None = None) -> None:
        """Retry the job after `delay` seconds, by default after the back-off. The attempt counts."""
        delay = None if delay is None else checks.seconds("delay", delay)
        self.settle(
            transitions.build_retry(
                self.lease.hold,
                self.job,
                delay=delay,
                why=why,
                backoff=self._holder.backoff,
                random=self._holder.random,
            )
        )

    @reject_unknown_options
    def snooze(self, delay: Seconds) -> None:
        """Queue the job again after `delay` seconds. The attempt does not count."""
        self.settle(transitions.build_snooze(self.lease.hold, checks.seconds("delay", delay)))

    def release(self) -> None:
        """Queue the job again at once. The attempt does not count."""
        self.settle(transitions.build_release(self.lease.hold))

    @reject_unknown_options
    def cancel(self, why: str | None = None) -> None:
        """Cancel the job."""
        self.settle(transitions.build_cancellation(self.lease.hold, why))

    @reject_unknown_options
    def extend(self, lease: Seconds | None = None) -> None:
        """Extend the lease to at least `lease` seconds from now, by default the length of the claim's lease.

        Raises `StoreUnavailable` if the job stays locked for 10 seconds.
        """
        self._extend(self.lease.length if lease is None else check_lease(lease))

    def extend_unless_locked(self) -> None:
        """Extend a kept lease; if the job is locked, the keeper extends the lease later."""
        self._extend(self.lease.length, leaves_to_keeper=True)

    @reject_unknown_options
    def progress(self, done: float, *, of: float | None = None, note: str | None = None) -> None:
        """Store the progress of the job, for operators, and extend the lease."""
        # Often the caller's own transaction has locked the row. The keeper retries until the lock is released.
        is_kept = self.lease.keep_count > 0
        self._extend(self.lease.length, Progress(done=done, of=of, note=note), leaves_to_keeper=is_kept)

    def __enter__(self) -> Self:
        if self.is_settled:
            raise self.lost_error(f"the job was {self._outcome} before the block was entered")
        self.verify()
        if self.is_lost:
            raise self.lost_error("the lease expired before the block was entered")
        self._holder.keeper.keep([self.lease])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self.is_in_this_process():
            return False
        try:
            return self.settle_on_exit(error)
        finally:
            self._holder.keeper.drop([self.lease])

    def settle_on_exit(self, error: BaseException | None) -> bool:
        """Settle the job on exit from a block; return whether to suppress `error`, which is so for an answer."""
        was_joined = self._joined_transaction is not None
        if self._is_settled_by_transaction(error) or self.is_settled or self.is_own_loss(error):
            return False
        if was_joined and error is None:
            # The effect was rolled back too. Completing now would lose the effect; a release would loop forever.
            log.warning(
                "completion of job %s was rolled back: the attempt failed", self.id, extra=job_log_fields(self.job)
            )
            self.settle(self.failure(ROLLED_BACK))
            return False
        if error is None and self.unconfirmed is None:
            settlement, problem = self.settlement_for_result(self.result)
            self.settle(settlement)
            if problem is not None:
                raise problem
            return False
        try:
            # A settlement without a response may have landed: resend the same settlement, never a different one.
            self.settle(self.unconfirmed or self.settlement_for_error(error))
        except TenureError as exc:
            if error is None:
                raise
            # The handler's error matters more than the store's: propagate it, with the store's error as a note.
            error.add_note(f"tenure: could not record this error on the job: {exc}")
            return False
        return isinstance(error, Answer)

    def is_own_loss(self, error: BaseException | None) -> bool:
        """Whether the exception is the `ClaimLost` of this claim."""
        return isinstance(error, ClaimLost) and (error.id, error.fence) == (self.id, self.fence)

    def _is_settled_by_transaction(self, error: BaseException | None) -> bool:
        """Return whether a completion in the caller's transaction leaves nothing to settle."""
        if self._joined_transaction is None:
            return False
        try:
            if self._joined_transaction.is_open():
                if error is not None:
                    error.add_note("tenure: the job is completed if your transaction commits, else its lease expires")
                return True
            return not self._check_commit()
        except StoreUnavailable as exc:
            if error is None:
                raise
            error.add_note(f"tenure: could not check whether your transaction was committed: {exc}")
            return True

    def _check_commit(self) -> bool:
        """Return whether the transaction that completed the job was rolled back; if so, hold the job again."""
        jobs = self._holder.store.find(Query(ids=(self.id,))).jobs
        return self.reopen_if_rolled_back(jobs[0] if jobs else None)

    def reopen_if_rolled_back(self, job: Job | None) -> bool:
        """Hold the job again unless it is completed or deleted; return whether it was rolled back.

        The claim may have been lost meanwhile.
        """
        is_done = job is None or (job.state is State.COMPLETED and job.fence == self.fence)
        if is_done:
            self._joined_transaction = None
        else:
            self._reopen()
            self.lease.is_over = job is None or job.state is not State.RUNNING or job.fence != self.fence
        return not is_done

    def _reopen(self) -> None:
        self._outcome = self._joined_transaction = None
        self.lease.is_over = False

    def _complete_in_transaction(self, settlement: Settlement, connection: object) -> None:
        store = require_transactional(self._holder.store)
        with self._lock:
            # The statement would wait for the other transaction, which only this thread may be able to end.
            if (
                self._joined_transaction is not None
                and not self._joined_transaction.belongs_to(connection)
                and self._joined_transaction.is_open()
            ):
                raise self.lost_error("the job was completed in another transaction, which is still open")
            with store.join(connection) as transaction:
                if self._joined_transaction is not None and self._is_held_in(transaction):
                    self._reopen()
                self.require_held()
                (settled,) = transaction.settle([settlement])
            self.require_recorded(settlement, settled)
            self.record_settlement(settlement, settled=True)
            self._joined_transaction = transaction

    def require_recorded(self, settlement: Settlement, settled: Settled) -> None:
        """Raise if a settlement in the caller's transaction was not recorded."""
        if isinstance(settled, Unsettled):
            raise ConfigurationError(unsettled_text(settlement, replace(settled, may_retry=True)))
        if not settled:
            raise self.lost_error()

    def _is_held_in(self, transaction: TransactionOperations) -> bool:
        (status,) = transaction.extend([Extension(hold=self.lease.hold, lease=self.lease.length)])
        return status is not HoldStatus.LOST

    def _settlement_for_answer(self, answer: Answer) -> Settlement:
        holder = self._holder
        return transitions.build_answer_settlement(
            self.lease.hold, self.job, answer, backoff=holder.backoff, random=holder.random
        )

    def settle(self, settlement: Settlement) -> None:
        """Send a settlement and record the response; resend the same settlement if there was no response."""
        with self._lock:
            self.require_held()
            is_first = self.unconfirmed in (None, settlement)
            self.unconfirmed, self.unsettled = settlement, None
            (settled,) = settle(self._holder.store, [settlement])
            if not isinstance(settled, Unsettled) or not settled.may_retry:
                self.record_settlement(settlement, settled)
        if isinstance(settled, Unsettled):
            self.unsettled = settlement, settled
            error = StoreUnavailable if settled is BUSY else ConfigurationError
            raise error(unsettled_text(settlement, settled))
        if not settled:
            raise self.lost_error(
                TAKEN_OVER if is_first else f"{TAKEN_OVER}, or an earlier settlement without a response was recorded"
            )

    def _extend(self, lease: float, progress: Progress | None = None, *, leaves_to_keeper: bool = False) -> None:
        self.require_held()
        keeper, extension = self._holder.keeper, Extension(hold=self.lease.hold, lease=lease, progress=progress)
        sent_at, status = extend(self._holder.store, extension, 0.0 if leaves_to_keeper else BUSY_TIMEOUT)
        keeper.record_extension(self.lease, status, sent_at, lease)
        if self.lease.is_over:
            keeper.end(self.lease)
            raise self.lost_error()
        if status is HoldStatus.REJECTED:
            raise ConfigurationError(unextended_text(self.lease.hold, status))
        if status is HoldStatus.BUSY and not leaves_to_keeper:
            raise StoreUnavailable(unextended_text(self.lease.hold, status))
        if status is HoldStatus.BUSY and progress is not None:
            keeper.report(self.lease, progress)

    def verify(self) -> None:
        """Extend a claim made elsewhere once, to verify that it is held and to learn its deadline."""
        if not self.lease.is_verified:
            self.extend()

    def require_held(self) -> None:
        """Raise `ClaimLost` if the claim is settled or belongs to another process."""
        if self.needs_commit_check():
            self._check_commit()
        if self._outcome is not None:
            raise self.lost_error(f"the job is already {self._outcome}")
        if not self.is_in_this_process():
            raise self.lost_error(f"process {self._process} holds it, not this forked child")

    def lost_error(self, why: str = TAKEN_OVER) -> ClaimLost:
        return claim_lost(self.lease.hold, why)


def claim_lost(hold: Hold, why: str = TAKEN_OVER) -> ClaimLost:
    """Return the error for a claim that is no longer held."""
    return ClaimLost(
        f"lost the claim of job {hold.id!r} with fence {hold.fence}: {why}; nothing was written",
        id=hold.id,
        fence=hold.fence,
    )


def _traceback_text(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - its notes may be invalid, and Python 3.11 sometimes fails here with several threads
        return summarize_exception(error)
