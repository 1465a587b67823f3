"""A worker: what it consists of, and how its parts begin and end."""

import asyncio
import inspect
import logging
import os
import platform
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import Any, Protocol, Self

from tenure.client.aio.threads import run_alone
from tenure.client.jobs import Jobs
from tenure.client.run import Run, Stop
from tenure.client.table import Table
from tenure.client.worker_options import Settings, WorkerOptions
from tenure.core import checks
from tenure.core.operations import Beat
from tenure.errors import ConfigurationError
from tenure.worker.async_executor import LoopSlots
from tenure.worker.background_tasks import Duties, Duty
from tenure.worker.claimer import Claimer
from tenure.worker.heartbeat import Presence, Strangers
from tenure.worker.janitor import Janitor
from tenure.worker.poller import Lookout
from tenure.worker.run_queue import Board
from tenure.worker.scheduler import Scheduler
from tenure.worker.sources import Sources, homes_of, settings_for, sources_of, supplies_of
from tenure.worker.started_jobs import Ledger
from tenure.worker.status import Vitals
from tenure.worker.status_reporter import Heart
from tenure.worker.summary import Summary
from tenure.worker.thread_executor import ThreadSlots
from tenure.worker.watchdog import Watchdog
from tenure.worker.work_source import Supply

log = logging.getLogger(__name__)

USED = "a worker runs once; make another"

PATIENCE = 5.0
"""Seconds that an event loop has to end when all jobs have ended. One that stands still is left behind."""
STEP = 0.5
"""Seconds after which a signal is noticed at the latest."""


class Worker:
    """Runs the tasks of a `Jobs`, the rows of a table, or both; of several sources, with one concurrency for all.

    As a block it does so in threads of its own, and ends with the block. In the `ledger`, if there is one, it tells
    whoever watches over its process what it has started, and how it is.
    """

    def __init__(self, sources: Sources, options: WorkerOptions, ledger: Ledger | None = None) -> None:
        self._sources = sources_of(sources)
        self._homes = homes_of(self._sources)
        self._settings: Settings = settings_for(options, self._sources)
        self._supplies = supplies_of(self._sources, self._settings)
        self._refuse_async_blocks_around_sync_tasks()
        self._board = Board(self._settings.concurrency, self._hand_over)
        self._lookouts: dict[Supply, Lookout] = {}
        self._claimer = Claimer(
            name=self.name,
            supplies=self._supplies,
            board=self._board,
            watch=lambda supply: self._lookouts[supply].watch(),
            interrupt=self._interrupt,
            grace=self._settings.grace,
            drain=self._settings.drain,
            is_closed=lambda: any(source._is_closed for source in (*self._sources, *self._homes)),
            ledger=ledger,
        )
        self._ledger = ledger
        if ledger is not None:
            ledger.open(self.name)
        for supply in self._supplies:
            self._lookouts[supply] = Lookout(
                supply.store, supply.request.queues, tuple(supply.handlers), partial(self._claimer.look, supply)
            )
        self._loop_slots: LoopSlots | None = None
        self._thread_slots: ThreadSlots | None = None
        self._watchdog: Watchdog | None = None
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._left: Future[None] = Future()
        self._is_hurried = False
        self._say_that_it_stops: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Worker {self.name!r} of {', '.join(self._types)}>"

    @property
    def name(self) -> str:
        """The name under which it claims: no other worker has it."""
        return self._settings.name

    @property
    def summary(self) -> Summary:
        """What it did so far."""
        return self._claimer.summary

    def vitals(self) -> Vitals:
        """Return how it is now. This asks nobody, and may be called from anywhere."""
        running = len(self._board.begun())
        return Vitals(
            name=self.name,
            pid=os.getpid(),
            is_ready=self._started.done() and self._started.exception() is None,
            is_stopping=self._claimer.is_stopping,
            is_store_failing=self._claimer.is_store_failing,
            quiet_for=0.0 if self._watchdog is None else self._watchdog.quiet_for(),
            running=running,
            waiting=max(0, self._board.size - running),
            summary=replace(self.summary),
        )

    def stop(self, *, now: bool = False) -> None:
        """Claim no more, and end when the handlers have ended, or the grace is over; `now`, without waiting for them.

        This returns at once, and may be called from anywhere.
        """
        self._is_hurried = self._is_hurried or now
        self._claimer.stop(now=now)
        self._say_that_it_stops()

    def retire(self) -> None:
        """Claim no more, and end when the handlers have, however long they take. A stop ends that, after its grace."""
        self._claimer.retire()
        self._say_that_it_stops()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.join()

    def start(self) -> None:
        """Begin to run jobs, in threads of its own."""
        self._must_be_new()
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run_loop,), name="tenure-worker", daemon=True)
        self._thread.start()
        try:
            _result_of(self._started)
        except BaseException:
            self.stop(now=True)
            raise

    def join(self) -> None:
        """Wait until it has ended. Raises what went wrong, if something did."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        _result_of(self._ended)
        # Lifespans have the time that they need to be left, unless there is none, or a handler may block the loop.
        while thread.is_alive() and not (self._left.done() or self._is_hurried or self._claimer.has_abandoned):
            wait([self._left], STEP)
        thread.join(0.0 if self._claimer.is_loop_stalled else PATIENCE)
        if thread.is_alive():
            log.warning("the event loop of worker %s does not end, and is left behind", self.name)
        if self._error is not None:
            raise self._error

    async def serve(self) -> Summary:
        """Run on the present event loop until it is stopped."""
        try:
            async with AsyncExitStack() as lifespans:
                for home in self._homes:
                    for lifespan in home._lifespans:
                        await _enter(lifespans, lifespan())
                await self._serve()
            self._left.set_result(None)
        except BaseException as exc:
            if not self._started.done():
                self._started.set_exception(exc)
            if not self._ended.done():
                self._ended.set_exception(exc)
            raise
        return self.summary

    async def started(self) -> None:
        """Wait until it has begun. Raises what went wrong, if something did."""
        started = asyncio.wrap_future(self._started)
        # Who waits may be cancelled, and then nobody asks how it went.
        started.add_done_callback(lambda each: each.cancelled() or each.exception())
        # Shielded: a cancel of who waits is not one of the future that the worker sets.
        await asyncio.shield(started)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        # Both here: so handlers of both kinds see the context variables of the caller and of the lifespans.
        self._loop_slots = LoopSlots(loop, self._board, self._claimer, self._ledger)
        self._thread_slots = ThreadSlots(self._board, self._claimer, self._ledger)
        watchdog = self._watchdog = Watchdog(loop, self._claimer, self._board, self._give_up, self._interrupt)
        presences = [self._presence_in(home, watchdog) for home in self._homes]
        # A store that cannot be used is told here and now; one that goes away later is waited for.
        for presence in presences:
            await run_alone(presence.show)
        duties = Duties([*(presence.show for presence in presences), *self._own_duties()])
        self._say_that_it_stops = lambda: duties.hurry(*(presence.show for presence in presences))
        self._say_hello()
        lookouts = list(self._lookouts.values())
        parts: list[_Closable] = [duties, watchdog, *lookouts, self._thread_slots]
        threads = [*(_thread("lookout", lookout.run) for lookout in lookouts), _thread("duties", duties.run)]
        heart = None if self._ledger is None else Heart(self._ledger, self.vitals)
        if heart is not None:
            parts.append(heart)
            threads.append(_thread("heart", heart.run))
        conduct = self._conduct(presences, parts, threads)
        # The claimer last: what it needs is there, or is told to be missing before anything is claimed.
        for thread in (*threads, _thread("watchdog", watchdog.run), _thread("claimer", conduct)):
            thread.start()
        self._started.set_result(None)
        if heart is not None:
            heart.beat()
        await self._until_ended()
        await self._loop_slots.close()

    async def _until_ended(self) -> None:
        """Wait for the claimer to end. A cancel asks it to; a second one does not wait for handlers."""
        ended = asyncio.wrap_future(self._ended)
        cancels = 0
        while not ended.done():
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError:
                cancels += 1
                self.stop(now=cancels > 1)
        ended.result()
        if cancels:
            raise asyncio.CancelledError

    def _conduct(
        self, presences: Sequence[Presence], parts: Sequence["_Closable"], threads: Sequence[threading.Thread]
    ) -> Callable[[], None]:
        def conduct() -> None:
            error: BaseException | None = None
            try:
                self._claimer.run()
            except BaseException as exc:  # noqa: BLE001 - whoever waits for the worker is told
                error = exc
            for part in parts:
                part.close()
            # When the worker has ended, nothing of it uses the store any more.
            for thread in threads:
                thread.join(PATIENCE)
            if not self._claimer.is_store_failing:
                for presence in presences:
                    presence.sign_off()
            if self._ledger is not None:
                self._ledger.seal()
            log.info("the worker %s has ended: %s", self.name, self.summary)
            # It may have ended before, by what went wrong at the start.
            if self._ended.done():
                return
            if error is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(error)

        return conduct

    def _run_loop(self) -> None:
        try:
            asyncio.run(self.serve())
        except BaseException as exc:  # noqa: BLE001 - whoever waits is told
            self._error = exc

    def _own_duties(self) -> Sequence[Duty]:
        duties: list[Duty] = []
        for jobs in (source for source in self._sources if isinstance(source, Jobs)):
            store = jobs._backend
            duties += [Strangers(store).look, Janitor(store, jobs.keep).clean]
            duties += [
                Scheduler(store, each).give_out
                for each in jobs._periodic.values()
                if each.call.task.type in self._types_in(jobs) and not self._settings.drain
            ]
        return duties

    def _hand_over(self, runs: Sequence[Run]) -> None:
        in_loop = [run for run in runs if run.handler.is_async]
        if in_loop and self._loop_slots is not None:
            self._loop_slots.hand_over(in_loop)
        if len(in_loop) < len(runs) and self._thread_slots is not None:
            self._thread_slots.hand_over([run for run in runs if not run.handler.is_async])

    def _interrupt(self, run: Run, why: Stop) -> None:
        slots = self._loop_slots if run.handler.is_async else self._thread_slots
        if slots is not None:
            slots.stop(run, why)

    def _give_up(self, run: Run) -> None:
        """Let the lease of a handler run out that does not end, and give its slot to others."""
        run.handler.supply.keeper.end(run.lease)
        self._board.give_up(run)
        self._claimer.look()

    def _presence_in(self, home: Jobs, watchdog: Watchdog) -> Presence:
        """Return how it is shown in the registry of a Jobs: with the types of its tasks, and tables made with it."""
        settings = self._settings
        tables = tuple(each.name for each in self._sources if isinstance(each, Table) and each._home is home)
        queues = settings.queues if home in self._sources else ()
        beat = Beat(
            name=settings.name,
            host=platform.node(),
            pid=os.getpid(),
            version=version("tenure"),
            concurrency=settings.concurrency,
            queues=None if queues is None else (*queues, *tables),
            types=(*self._types_in(home), *tables),
        )
        return Presence(home._backend, beat, watchdog.quiet_for, lambda: self._claimer.is_stopping)

    def _types_in(self, source: Jobs | Table[Any]) -> tuple[str, ...]:
        """Return the types that it runs of one source."""
        return next((tuple(each.handlers) for each in self._supplies if self._sources[each.number] is source), ())

    @property
    def _types(self) -> list[str]:
        return [type for supply in self._supplies for type in supply.handlers]

    def _say_hello(self) -> None:
        settings = self._settings
        queues = "every queue" if settings.queues is None else f"the queues {', '.join(settings.queues)}"
        tasks = ", ".join(
            each for source in self._sources if isinstance(source, Jobs) for each in self._types_in(source)
        )
        tables = ", ".join(source.spec.shown for source in self._sources if isinstance(source, Table))
        what = [f"{tasks} from {queues}"] * bool(tasks) + [f"the rows of {tables}"] * bool(tables)
        log.info("the worker %s runs %s, %s at a time", settings.name, " and ".join(what), settings.concurrency)

    def _refuse_async_blocks_around_sync_tasks(self) -> None:
        for handler in (each for supply in self._supplies for each in supply.handlers.values() if not each.is_async):
            for around in handler.arounds:
                if inspect.isasyncgenfunction(inspect.unwrap(around)):
                    raise ConfigurationError(
                        f"{getattr(around, '__name__', around)!r} is an async block, which cannot be put around the "
                        f"task {handler.type!r}, which is not async; use a block that is not async"
                    )

    def _must_be_new(self) -> None:
        if self._started.done() or self._thread is not None:
            raise ConfigurationError(USED)


class _Closable(Protocol):
    def close(self) -> None: ...


def _thread(name: str, target: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=target, name=f"tenure-{name}", daemon=True)


async def _enter(stack: AsyncExitStack, block: object) -> None:
    if isinstance(block, AbstractContextManager):
        stack.enter_context(block)
    elif isinstance(block, AbstractAsyncContextManager):
        await stack.enter_async_context(block)
    else:
        raise ConfigurationError(f"lifespan gave {checks.shown(block)}; it has to be a context manager")


def _result_of(future: Future[None]) -> None:
    """Wait for it, in steps: Python notices a signal that comes at the brink of a wait only when that is over."""
    while not future.done():
        wait([future], STEP)
    future.result()
