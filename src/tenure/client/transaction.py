"""`claim.transaction()`: commit the effects of a job and its completion together."""

import logging
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tenure.backends.protocol import Claiming, Transactional
from tenure.client.keeper import Keeper, ticks
from tenure.core import transitions
from tenure.core.answers import Answer
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import Extension, HoldStatus, Settlement
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from tenure.client.claim import Claim

log = logging.getLogger(__name__)


class Transaction:
    """Completes the job and commits on exit. An exception rolls back and is recorded as by `with claim`."""

    __slots__ = ("_claim", "_keeper", "_loop", "_steps", "_store")

    def __init__(
        self, claim: "Claim", store: Transactional, keeper: Keeper, loop: "AbstractEventLoop | None" = None
    ) -> None:
        self._claim = claim
        self._store = store
        self._keeper = keeper
        self._loop = loop
        self._steps = self._transaction_steps()

    def __enter__(self) -> Any:
        return next(self._steps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self._claim.is_in_this_process():
            self._steps.close()
            if error is None:
                # Raises: the writes of this forked child are not committed.
                self._claim.require_held()
            return False
        try:
            self._end(error)
        except BaseException as exc:
            # The commit failed: settle the job by that error.
            if exc is not error:
                self._claim.settle_on_exit(exc)
                raise
        return error is not None and self._claim.settle_on_exit(error)

    def _end(self, error: BaseException | None) -> None:
        try:
            if error is None:
                next(self._steps, None)
            else:
                self._steps.throw(error)
        finally:
            # An interrupt may arrive before the generator runs.
            self._steps.close()

    def _transaction_steps(self) -> Generator[Any]:
        claim = self._claim
        claim.require_held()
        claim.verify()
        self._keeper.keep([claim.lease])
        completion: Settlement | None = None
        try:
            if not self._store.is_exclusive:
                # Outside the transaction: inside, the row would stay locked, and the keeper could not extend the lease.
                claim.extend_unless_locked()
            # Without the claim's lock: the caller's block may use the claim.
            with self._store.transaction(self._loop) as connection:
                started_at = ticks()
                is_held = not self._store.is_exclusive or self._lock_if_held(connection)
                if is_held:
                    yield connection
                    completion = self._complete(connection)
                self._log_if_slow(ticks() - started_at)
        finally:
            self._keeper.drop([claim.lease])
        if not is_held:
            self._keeper.end(claim.lease)
            raise claim.lost_error()
        if completion is not None:
            claim.record_settlement(completion, settled=True)

    def _lock_if_held(self, connection: object) -> bool:
        """Return whether the job is held, and lock it until the end of the transaction."""
        hold = self._claim.lease.hold
        with self._store.join(connection) as transaction:
            (status,) = transaction.extend([Extension(hold=hold, lease=self._claim.lease.length)])
            if status is HoldStatus.LOST:
                # Let the store count the rejected settlement.
                transaction.settle([transitions.build_completion(hold)])
        return status is not HoldStatus.LOST

    def _complete(self, connection: object) -> Settlement:
        """Complete the job at the end of its transaction, also if the block completed it already.

        The block may have rolled that completion back to a savepoint, or settled the claim otherwise.
        """
        claim = self._claim
        if isinstance(claim.result, Answer):
            raise ConfigurationError(
                f"claim.transaction() completes the job: raise {claim.result} to roll back, do not set it as the result"
            )
        completion = claim.completion(claim.result)
        with self._store.join(self._connection_for_thread(connection)) as transaction:
            (settled,) = transaction.settle([completion])
        claim.require_recorded(completion, settled)
        return completion

    def _connection_for_thread(self, connection: object) -> object:
        """Return the connection in the form that this thread can use."""
        if self._loop is None:
            return connection
        from tenure.connections.caller import adapt_async_connection

        return adapt_async_connection(self._loop, connection) or connection

    def _log_if_slow(self, seconds: float) -> None:
        if self._store.is_exclusive and seconds > self._claim.lease.length / 3:
            log.warning(
                "transaction of job %s held the write lock for %.1f s of a lease of %g s; keep transactions short",
                self._claim.id,
                seconds,
                self._claim.lease.length,
                extra=job_log_fields(self._claim.job),
            )


def require_transactional(store: Claiming) -> Transactional:
    """Return the store if it has transactions, else raise `ConfigurationError`."""
    if not isinstance(store, Transactional):
        raise ConfigurationError(
            f"the {type(store).__name__.lower()} store has no SQL transactions: use postgresql:// or sqlite://, "
            "or omit connection= and transaction()"
        )
    return store
