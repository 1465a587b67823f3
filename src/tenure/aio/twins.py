"""Jobs for async code: the same verbs, awaited.

There is one implementation, the synchronous one. A twin calls it in a thread and awaits the answer, one hop a call.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from functools import partial, wraps
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Protocol, Self, TypeVar, Unpack

from tenure import results
from tenure.aio.threads import ALONE, Runs, Threads, run_alone
from tenure.backends.urls import Store
from tenure.claim import Claim
from tenure.claims import Claims
from tenure.connections.caller import awaited_on
from tenure.core import checks
from tenure.core.checks import Seconds, known_options
from tenure.core.filters import Filters, Names, query_of
from tenure.core.job import Job
from tenure.core.retry import Backoff
from tenure.jobs import Jobs, request_of
from tenure.keep import Keep
from tenure.keeper import ticks
from tenure.tasks.task import Task
from tenure.worker_options import WorkerOptions

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tenure.testing import Rehearsal
    from tenure.worker import AsyncWorker, Summary

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


class Twin(Protocol[S]):
    """What has a synchronous other half, and the threads in which that is used."""

    sync: S

    @property
    def threads(self) -> Runs: ...


def awaited(
    verb: Callable[Concatenate[S, P], R], *, reads: bool = False
) -> Callable[Concatenate[Twin[S], P], Coroutine[Any, Any, R]]:
    """Return the same verb, awaited: of the same name, with the same options.

    One that `reads` takes several of something, perhaps from a generator. That is read first, in the caller's thread:
    what it draws on may belong there.
    """

    @wraps(verb)
    async def call(self: Twin[S], /, *args: P.args, **options: P.kwargs) -> R:
        if reads:
            args = tuple(_read(each) for each in args)  # type: ignore[assignment]
            options = {name: _read(each) for name, each in options.items()}  # type: ignore[assignment]
        connection = options.get("connection")
        if connection is None:
            return await self.threads.run(partial(verb, self.sync, *args, **options))
        joined = awaited_on(asyncio.get_running_loop(), connection)
        if joined is None:
            # It is the caller's, and belongs to the caller's thread.
            return verb(self.sync, *args, **options)
        options["connection"] = joined
        # In a thread of its own: all others may be waiting for the end of the transaction that this is part of.
        return await run_alone(partial(verb, self.sync, *args, **options), on_cancel=joined.cancel)

    return call


def _read(value: object) -> object:
    return list(value) if isinstance(value, Iterator) else value


class OnlyAsync:
    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker says it by itself

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{type(self).__name__} is for async code: use `async with`, or `with` on its `.sync`")

        def __exit__(self, *ending: object) -> None: ...


class AsyncJobs(OnlyAsync):
    """The awaited twin of a `Jobs`: the same store, and the same keeper. Any event loops and threads may share it.

    A call that is cancelled comes to its end before the cancel is raised. A claim that is cancelled ends at once, and
    what it takes is given back.
    """

    sync: Jobs
    """The same for code that does not await."""

    @known_options
    def __init__(self, store: Store | None = None, *, backoff: Backoff | None = None, keep: Keep | None = None) -> None:
        self._join(Jobs(store, backoff=backoff, keep=keep))

    enqueue = awaited(Jobs.enqueue)
    enqueue_many = awaited(Jobs.enqueue_many, reads=True)
    reap = awaited(Jobs.reap)
    get = awaited(Jobs.get)
    stats = awaited(Jobs.stats)
    explain = awaited(Jobs.explain)
    counts = awaited(Jobs.counts)
    workers = awaited(Jobs.workers)
    retry = awaited(Jobs.retry, reads=True)
    cancel = awaited(Jobs.cancel, reads=True)
    delete = awaited(Jobs.delete, reads=True)
    purge = awaited(Jobs.purge)
    pause = awaited(Jobs.pause)
    resume = awaited(Jobs.resume)
    migrate = awaited(Jobs.migrate)

    @known_options
    async def claim(
        self,
        *,
        queues: Names | None = None,
        types: Names | None = None,
        limit: int = 1,
        lease: Seconds = 60.0,
        wait: Seconds = 0.0,
        worker: str | None = None,
    ) -> "AsyncClaims":
        """Take up to `limit` due jobs, waiting up to `wait` seconds for the first.

        Use the claims as a block to have them kept alive while you work; those you do not settle are released.
        """
        request = request_of(queues, types, limit, lease, worker)
        ends_at = ticks() + checks.seconds("wait", wait)
        find = partial(self.sync._look, request)
        return AsyncClaims(self, await self.threads.take(find, (request.queues, request.types), ends_at))

    @known_options
    async def claimed(self, id: str, *, fence: int, token: str, lease: Seconds = 60.0) -> "AsyncClaim":
        """Return the handle of a claim that was made elsewhere, as `Jobs.claimed` does."""
        find = partial(self.sync.claimed, id, fence=fence, token=token, lease=lease)
        return (await self.threads.run(find)).aio

    @property
    def tasks(self) -> Mapping[str, Task[..., Any, Any]]:
        """The tasks by their types."""
        return self.sync.tasks

    @known_options
    async def wait_for(self, id: str, timeout: Seconds | None = None) -> Job:
        """Return the job when it is completed, waiting so many seconds at most. Raises as `Jobs.wait_for` does."""
        seconds = checks.optional(checks.seconds, "timeout", timeout)
        for pause in chain(results.pauses(seconds), [0.0]):
            if (job := results.completed(id, await self.get(id))) is not None:
                return job
            await asyncio.sleep(pause)
        raise results.not_yet(id, seconds)

    async def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the tasks on this event loop until SIGTERM or SIGINT, or with `drain=True` until nothing is due.

        The options are those of `Jobs.work`. A cancel stops it as a signal does, and is raised when it has ended.
        """
        from tenure.worker import Worker, stopped_by_signals

        worker = await self.threads.run(partial(Worker, self.sync, options))
        with stopped_by_signals(worker):
            return await worker.serve()

    def worker(self, **options: Unpack[WorkerOptions]) -> "AsyncWorker":
        """Return a worker with the options of `Jobs.work`, to be used as an async block on this event loop."""
        from tenure.worker import AsyncWorker

        return AsyncWorker(self.sync, options)

    def testing(self) -> "AbstractContextManager[Rehearsal]":
        """Return the block of `Jobs.testing`, a plain one; jobs are run by `await queue.aio.drain()`."""
        return self.sync.testing()

    def find(self, **filters: Unpack[Filters]) -> AsyncIterator[Job]:
        """Yield the jobs that match, read page by page; without a condition, all."""
        return self._found(self.sync._pages(query_of("find", filters)))

    async def close(self) -> None:
        """Stop keeping leases and close the store, when all that is under way has ended. Again, it does nothing."""
        await run_alone(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def threads(self) -> Threads:
        """The threads of this process: a forked child has none of its parent's."""
        process = os.getpid()
        return self._threads.get(process) or self._threads.setdefault(process, Threads(self._wait))

    def _join(self, jobs: Jobs) -> None:
        self.sync = jobs
        # To register a function is the same for both.
        self.task, self.cron, self.around, self.lifespan = jobs.task, jobs.cron, jobs.around, jobs.lifespan
        self._threads: dict[int, Threads] = {}
        jobs._twin = self

    def _wait(self, queues: tuple[str, ...] | None, types: tuple[str, ...] | None, timeout: float) -> None:
        self.sync._backend.wait(queues, types, timeout)

    async def _found(self, pages: Iterator[list[Job]]) -> AsyncIterator[Job]:
        while (page := await self.threads.run(partial(next, pages, None))) is not None:
            for job in page:
                yield job


class AsyncClaim(OnlyAsync):
    """The awaited twin of a `Claim`. Used as an async block it is kept alive, and completed on leaving."""

    __slots__ = ("_twin", "sync")

    def __init__(self, claim: Claim, twin: Callable[[], AsyncJobs | None]) -> None:
        self.sync = claim
        self._twin = twin

    def __repr__(self) -> str:
        return repr(self.sync).replace("Claim", "AsyncClaim", 1)

    @property
    def threads(self) -> Runs:
        jobs = self._twin()
        return ALONE if jobs is None else jobs.threads

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

    complete = awaited(Claim.complete)
    fail = awaited(Claim.fail)
    retry = awaited(Claim.retry)
    snooze = awaited(Claim.snooze)
    release = awaited(Claim.release)
    cancel = awaited(Claim.cancel)
    extend = awaited(Claim.extend)
    progress = awaited(Claim.progress)

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
            await run_alone(enter)
            with _values_of(inside):
                yield entered[0]
        except BaseException as error:
            is_answer = False if not entered else await run_alone(partial(leave, error))
            if is_answer:
                return
            raise
        await run_alone(leave)

    async def __aenter__(self) -> Self:
        if not self.sync.lease.is_proven:
            await self.threads.run(self.sync.prove)
        # Here: it does not ask the store, and what has not been awaited cannot be cancelled half-way.
        self.sync.__enter__()
        return self

    __aexit__ = awaited(Claim.__exit__)


class AsyncClaims(list[AsyncClaim], OnlyAsync):
    """The awaited twin of `Claims`. As an async block, all are kept alive; the unsettled are released."""

    def __init__(self, jobs: AsyncJobs, claims: Claims) -> None:
        super().__init__(claim.aio for claim in claims)
        self.sync = claims
        self._jobs = jobs

    @property
    def threads(self) -> Threads:
        return self._jobs.threads

    def __iter__(self) -> Iterator[AsyncClaim]:
        for claim in super().__iter__():
            self.sync._at = claim.sync
            yield claim
        self.sync._at = None

    async def __aenter__(self) -> Self:
        self.sync.__enter__()
        return self

    __aexit__ = awaited(Claims.__exit__)


@contextmanager
def _values_of(context: Context) -> Iterator[None]:
    """Have the context variables here that were set there: what is set in a thread is set for that thread alone."""
    here = copy_context()
    tokens = [variable.set(value) for variable, value in context.items() if here.get(variable) is not value]
    try:
        yield
    finally:
        for token in tokens:
            token.var.reset(token)


def twin_of(jobs: Jobs) -> AsyncJobs:
    """Return a twin for this `Jobs`, which has none yet."""
    twin = AsyncJobs.__new__(AsyncJobs)
    twin._join(jobs)
    return twin
