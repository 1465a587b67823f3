"""The awaited twins of claims."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from tenure.client.aio.awaited import AsyncOnly, async_method
from tenure.client.aio.threads import ONE_SHOT_RUNNER, ThreadRunner, run_in_new_thread
from tenure.client.claim import Claim
from tenure.client.claims import Claims, ClaimsOf
from tenure.core.job import Job


class AsyncSourceFacade(Protocol):
    """What calls go through that are made for claims."""

    @property
    def threads(self) -> ThreadRunner: ...


class AsyncClaim(AsyncOnly):
    """The awaited twin of a `Claim`. Used as an async block it is kept alive, and completed on leaving."""

    __slots__ = ("_facade", "sync")

    def __init__(self, claim: Claim, facade: Callable[[], AsyncSourceFacade | None]) -> None:
        self.sync = claim
        self._facade = facade

    def __repr__(self) -> str:
        return repr(self.sync).replace("Claim", "AsyncClaim", 1)

    @property
    def threads(self) -> ThreadRunner:
        facade = self._facade()
        return ONE_SHOT_RUNNER if facade is None else facade.threads

    @property
    def id(self) -> str:
        return self.sync.id

    @property
    def job(self) -> Job:
        return self.sync.job

    @property
    def fence(self) -> int:
        return self.sync.fence

    @property
    def token(self) -> str:
        return self.sync.token

    @property
    def is_lost(self) -> bool:
        """Whether the job may be another's by now. It turns true before the store would give the job away."""
        return self.sync.is_lost

    @property
    def is_settled(self) -> bool:
        return self.sync.is_settled

    @property
    def cancel_requested(self) -> bool:
        """Whether an operator asked for the job to be cancelled, as far as the last extension told."""
        return self.sync.cancel_requested

    @property
    def result(self) -> Any:
        return self.sync.result

    @result.setter
    def result(self, value: Any) -> None:
        self.sync.result = value

    complete = async_method(Claim.complete)
    fail = async_method(Claim.fail)
    retry = async_method(Claim.retry)
    snooze = async_method(Claim.snooze)
    release = async_method(Claim.release)
    cancel = async_method(Claim.cancel)
    extend = async_method(Claim.extend)
    progress = async_method(Claim.progress)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Give a connection to the store's database, for writes that commit together with the completion.

        As that of a `Claim`. On PostgreSQL it is a `psycopg.AsyncConnection`. On SQLite it is a plain one, used in the
        thread of the event loop: be brief.
        """
        block, inside = self.sync.transaction_on(asyncio.get_running_loop()), copy_context()
        entered: list[Any] = []

        def enter() -> None:
            entered.append(inside.run(block.__enter__))

        def leave(error: BaseException | None = None) -> bool:
            kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
            return inside.run(block.__exit__, kind, error, trace)

        # In threads of their own: all others may be waiting for this transaction to end.
        try:
            await run_in_new_thread(enter)
            with _context_variables_of(inside):
                yield entered[0]
        except BaseException as error:
            is_answer = False if not entered else await run_in_new_thread(partial(leave, error))
            if is_answer:
                return
            raise
        await run_in_new_thread(leave)

    async def __aenter__(self) -> Self:
        if not self.sync.lease.is_verified:
            await self.threads.run(self.sync.verify)
        # Here: it does not ask the store, and what has not been awaited cannot be cancelled half-way.
        self.sync.__enter__()
        return self

    __aexit__ = async_method(Claim.__exit__)


A = TypeVar("A", bound=AsyncClaim)


class AsyncClaimsOf(list[A], AsyncOnly, Generic[A]):
    """The awaited twin of a `ClaimsOf`. As an async block, all are kept alive; the unsettled are released."""

    def __init__(self, facade: AsyncSourceFacade, claims: ClaimsOf[Any]) -> None:
        super().__init__(claim.aio for claim in claims)
        self.sync = claims
        self._facade = facade

    @property
    def threads(self) -> ThreadRunner:
        return self._facade.threads

    def __iter__(self) -> Iterator[A]:
        for claim in super().__iter__():
            self.sync._current = claim.sync
            yield claim
        self.sync._current = None

    async def __aenter__(self) -> Self:
        self.sync.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.threads.run(partial(self.sync.__exit__, kind, error, trace))


class AsyncClaims(AsyncClaimsOf[AsyncClaim]):
    """The awaited twin of `Claims`. As an async block, all are kept alive; the unsettled are released."""

    sync: Claims


@contextmanager
def _context_variables_of(context: Context) -> Iterator[None]:
    """Have the context variables here that were set there: what is set in a thread is set for that thread alone."""
    here = copy_context()
    tokens = [variable.set(value) for variable, value in context.items() if here.get(variable) is not value]
    try:
        yield
    finally:
        for token in tokens:
            token.var.reset(token)
