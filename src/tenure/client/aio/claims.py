"""Async facades of claims."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from tenure.client.aio.awaited import AsyncOnly, async_method
from tenure.client.aio.threads import ONE_SHOT_RUNNER, ThreadRunner, Threads, run_in_new_thread
from tenure.client.claim import Claim
from tenure.client.claims import Claims, ClaimsOf
from tenure.core.job import Job


class AsyncSourceFacade(Protocol):
    """The facade of a source: its threads run the calls of its claims."""

    @property
    def threads(self) -> Threads: ...


class AsyncClaim(AsyncOnly):
    """The async facade of a `Claim`. As an async context manager it extends the lease.

    On exit, the job is completed.
    """

    __slots__ = ("_facade", "sync")

    def __init__(self, claim: Claim, facade: Callable[[], AsyncSourceFacade | None]) -> None:
        self.sync = claim
        self._facade = facade

    def __repr__(self) -> str:
        return repr(self.sync).replace("Claim", "AsyncClaim", 1)

    @property
    def threads(self) -> ThreadRunner:
        facade = self._facade()
        return ONE_SHOT_RUNNER if facade is None else facade.threads.endings

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
        """Whether another worker may hold the job. Turns true before the store can reap the lease."""
        return self.sync.is_lost

    @property
    def is_settled(self) -> bool:
        return self.sync.is_settled

    @property
    def cancel_requested(self) -> bool:
        """Whether an operator requested a cancel, as of the last extension of the lease."""
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
        """Return an async context manager that yields a connection, as `Claim.transaction` does.

        On PostgreSQL the connection is a `psycopg.AsyncConnection`. On SQLite it is a `sqlite3.Connection`, used in the
        thread of the event loop: keep the block short.
        """
        block, inside = self.sync.transaction_on(asyncio.get_running_loop()), copy_context()
        entered: list[Any] = []

        def enter() -> None:
            entered.append(inside.run(block.__enter__))

        def leave(error: BaseException | None = None) -> bool:
            kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
            return inside.run(block.__exit__, kind, error, trace)

        # In new threads: all pool threads may be waiting for the end of this transaction.
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
        # In this thread: entering sends no request, and without an await a cancel cannot interrupt it.
        self.sync.__enter__()
        return self

    __aexit__ = async_method(Claim.__exit__)


A = TypeVar("A", bound=AsyncClaim)


class AsyncClaimsOf(list[A], AsyncOnly, Generic[A]):
    """The async facade of a list of claims. As an async context manager it extends their leases.

    On exit, unsettled claims are released.
    """

    def __init__(self, facade: AsyncSourceFacade, claims: ClaimsOf[Any]) -> None:
        super().__init__(claim.aio for claim in claims)
        self.sync = claims
        self._facade = facade

    @property
    def threads(self) -> ThreadRunner:
        return self._facade.threads.endings

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
    """The async facade of `Claims`. As an async context manager it extends their leases.

    On exit, unsettled claims are released.
    """

    sync: Claims


@contextmanager
def _context_variables_of(context: Context) -> Iterator[None]:
    """Set the context variables of `context` here: a variable set in a thread is not visible in other threads."""
    here = copy_context()
    tokens = [variable.set(value) for variable, value in context.items() if here.get(variable) is not value]
    try:
        yield
    finally:
        for token in tokens:
            token.var.reset(token)
