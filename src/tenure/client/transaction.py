"""The block of a claim in which its effects and its completion are one commit."""

import logging
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tenure.backends.protocol import Claiming, Transactional
from tenure.client.keeper import Keeper, ticks
from tenure.core import transitions
from tenure.core.answers import Answer
from tenure.core.log_fields import facts
from tenure.core.operations import Extension, Holding, Settlement
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from tenure.client.claim import Claim

log = logging.getLogger(__name__)


class Transaction:
    """Left quietly, it completes the job and commits; an exception undoes it, and is recorded as by `with claim`."""

    __slots__ = ("_claim", "_keeper", "_loop", "_steps", "_store")

    def __init__(
        self, claim: "Claim", store: Transactional, keeper: Keeper, loop: "AbstractEventLoop | None" = None
    ) -> None:
        self._claim = claim
        self._store = store
        self._keeper = keeper
        self._loop = loop
        self._steps = self._one_commit()

    def __enter__(self) -> Any:
        return next(self._steps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self._claim.is_here():
            self._steps.close()
            if error is None:
                # Nothing of what this forked child has done in it is committed.
                self._claim.must_be_held()
            return False
        try:
            self._end(error)
        except BaseException as exc:
            # It could not be committed, and the job has to be settled by that.
            if exc is not error:
                self._claim.leave(exc)
                raise
        return error is not None and self._claim.leave(error)

    def _end(self, error: BaseException | None) -> None:
        try:
            if error is None:
                next(self._steps, None)
            else:
                self._steps.throw(error)
        finally:
            # An interrupt may have come before anything was done.
            self._steps.close()

    def _one_commit(self) -> Generator[Any]:
        claim = self._claim
        claim.must_be_held()
        claim.prove()
        self._keeper.keep([claim.lease])
        completion: Settlement | None = None
        try:
            if not self._store.is_exclusive:
                # Not in the transaction: the job would be locked until its end, and nobody could extend the lease.
                claim.extend()
            # Not under the lock of the claim: the block may use it.
            with self._store.transaction(self._loop) as connection:
                started_at = ticks()
                is_held = not self._store.is_exclusive or self._is_held(connection)
                if is_held:
                    yield connection
                    completion = self._complete(connection)
                self._say_if_it_took_long(ticks() - started_at)
        finally:
            self._keeper.drop([claim.lease])
        if not is_held:
            self._keeper.end(claim.lease)
            raise claim.lost()
        if completion is not None:
            claim.note(completion, landed=True)

    def _is_held(self, connection: object) -> bool:
        """Tell whether the job is held; from now on nobody else can take it."""
        hold = self._claim.lease.hold
        with self._store.joined(connection) as joined:
            (holding,) = joined.extend([Extension(hold=hold, lease=self._claim.lease.length)])
            if holding is Holding.LOST:
                # So that the store counts what it refused.
                joined.settle([transitions.completed(hold)])
        return holding is not Holding.LOST

    def _complete(self, connection: object) -> Settlement:
        """Complete the job at the end of its transaction; the same again, if the block did.

        The block may have undone that with a savepoint, or have ended the claim in another way.
        """
        claim = self._claim
        if isinstance(claim.result, Answer):
            raise ConfigurationError(f"a transaction completes the job; raise {claim.result} instead, which undoes it")
        completion = claim.completion(claim.result)
        with self._store.joined(self._usable(connection)) as joined:
            (landed,) = joined.settle([completion])
        if not landed:
            raise claim.lost()
        return completion

    def _usable(self, connection: object) -> object:
        """Return the connection as it is used in this thread."""
        if self._loop is None:
            return connection
        from tenure.connections.caller import awaited_on

        return awaited_on(self._loop, connection) or connection

    def _say_if_it_took_long(self, seconds: float) -> None:
        if self._store.is_exclusive and seconds > self._claim.lease.length / 3:
            log.warning(
                "the transaction of job %s took %.1f s of a lease of %g s; while it was open, nobody else could write",
                self._claim.id,
                seconds,
                self._claim.lease.length,
                extra=facts(self._claim.job),
            )


def transactional(store: Claiming) -> Transactional:
    """Return the store if it has transactions, or raise."""
    if not isinstance(store, Transactional):
        raise ConfigurationError(
            f"the {type(store).__name__.lower()} store has no transactions to share; use postgresql:// or sqlite://, "
            "or leave out connection= and transaction()"
        )
    return store
