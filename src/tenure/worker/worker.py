"""Assemble the parts of a worker, start them, and stop them in order."""

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

from tenure.client.aio.threads import run_in_new_thread
from tenure.client.jobs import Jobs
from tenure.client.run import Run, StopReason
from tenure.client.table import Table
from tenure.client.worker_options import WorkerOptions, WorkerSettings
from tenure.core import checks
from tenure.core.operations import Heartbeat
from tenure.errors import ConfigurationError
from tenure.worker.async_executor import AsyncExecutor
from tenure.worker.background_tasks import BackgroundTask, BackgroundTasks
from tenure.worker.claimer import Claimer
from tenure.worker.heartbeat import Registration, UnhandledTypes
from tenure.worker.janitor import Janitor
from tenure.worker.poller import Poller
from tenure.worker.run_queue import RunQueue
from tenure.worker.scheduler import Scheduler
from tenure.worker.sources import Sources, all_jobs_of, build_work_sources, resolve_sources, settings_for
from tenure.worker.started_jobs import StartedJobs
from tenure.worker.status import WorkerStatus
from tenure.worker.status_reporter import StatusReporter
from tenure.worker.summary import Summary
from tenure.worker.thread_executor import ThreadExecutor
from tenure.worker.watchdog import Watchdog
from tenure.worker.work_source import WorkSource

log = logging.getLogger(__name__)

ALREADY_RUN = "this worker has already run; create another"

THREAD_EXIT_TIMEOUT = 5.0
"""Seconds to wait for the event loop and the background threads to end after the last job. Then they are abandoned."""
SIGNAL_CHECK_INTERVAL = 0.5
"""Longest blocking wait, in seconds, between two chances for Python to run a signal handler."""


class Worker:
    """Run the tasks of a `Jobs`, the rows of a table, or several sources with one concurrency for all.

    As a block, the worker runs in background threads and stops when the block ends. With `started_jobs`, the worker
    records its started jobs and its status for the supervisor.
    """

    def __init__(self, sources: Sources, options: WorkerOptions, started_jobs: StartedJobs | None = None) -> None:
        self._sources = resolve_sources(sources)
        self._all_jobs = all_jobs_of(self._sources)
        self._settings: WorkerSettings = settings_for(options, self._sources)
        self._work_sources = build_work_sources(self._sources, self._settings)
        self._reject_async_blocks_around_sync_tasks()
        self._run_queue = RunQueue(self._settings.concurrency, self._submit)
        self._pollers: dict[WorkSource, Poller] = {}
        self._claimer = Claimer(
            name=self.name,
            sources=self._work_sources,
            run_queue=self._run_queue,
            arm_poller=lambda source: self._pollers[source].arm(),
            interrupt=self._interrupt,
            grace=self._settings.grace,
            drain=self._settings.drain,
            is_closed=lambda: any(source._is_closed for source in (*self._sources, *self._all_jobs)),
            started_jobs=started_jobs,
        )
        self._started_jobs = started_jobs
        if started_jobs is not None:
            started_jobs.write_name(self.name)
        for source in self._work_sources:
            self._pollers[source] = Poller(
                source.store,
                source.claim_request.queues,
                tuple(source.handlers),
                partial(self._claimer.request_poll, source),
            )
        self._async_executor: AsyncExecutor | None = None
        self._thread_executor: ThreadExecutor | None = None
        self._watchdog: Watchdog | None = None
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._lifespans_exited: Future[None] = Future()
        self._skips_grace = False
        self._publish_stop: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Worker {self.name!r} of {', '.join(self._types)}>"

    @property
    def name(self) -> str:
        """The unique name under which the worker claims."""
        return self._settings.name

    @property
    def summary(self) -> Summary:
        """Counts of the runs that have ended so far."""
        return self._claimer.summary

    def status(self) -> WorkerStatus:
        """Return the current status, without contacting the store. Safe to call from any thread."""
        running = len(self._run_queue.started_runs())
        return WorkerStatus(
            name=self.name,
            pid=os.getpid(),
            is_ready=self._started.done() and self._started.exception() is None,
            is_stopping=self._claimer.is_stopping,
            is_store_failing=self._claimer.is_store_failing,
            blocked_for=0.0 if self._watchdog is None else self._watchdog.blocked_for(),
            running=running,
            buffered=max(0, self._run_queue.size - running),
            summary=replace(self.summary),
        )

    def stop(self, *, now: bool = False) -> None:
        """Stop claiming, and end when the handlers have ended or the grace period is over; with `now`, do not wait.

        This returns at once. Safe to call from any thread and from a signal handler.
        """
        self._skips_grace = self._skips_grace or now
        self._claimer.stop(now=now)
        self._publish_stop()

    def quiet(self) -> None:
        """Stop claiming, and end when the handlers have ended, without a time limit. A later `stop` sets the limit."""
        self._claimer.quiet()
        self._publish_stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.join()

    def start(self) -> None:
        """Start running jobs in background threads."""
        self._require_unstarted()
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run_loop,), name="tenure-worker", daemon=True)
        self._thread.start()
        try:
            _wait_for(self._started)
        except BaseException:
            self.stop(now=True)
            raise

    def join(self) -> None:
        """Wait until the worker has ended. Raise its error, if it failed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        _wait_for(self._ended)
        # Wait for the lifespans to exit, without a time limit. After `stop(now=True)`, or if an abandoned handler may
        # block the loop, do not wait.
        while thread.is_alive() and not (
            self._lifespans_exited.done() or self._skips_grace or self._claimer.has_abandoned
        ):
            wait([self._lifespans_exited], SIGNAL_CHECK_INTERVAL)
        thread.join(0.0 if self._claimer.is_loop_blocked else THREAD_EXIT_TIMEOUT)
        if thread.is_alive():
            log.warning("event loop of worker %s did not stop; abandoning it", self.name)
        if self._error is not None:
            raise self._error

    async def serve(self) -> Summary:
        """Run on the current event loop until the worker is stopped."""
        try:
            async with AsyncExitStack() as lifespans:
                for jobs in self._all_jobs:
                    for lifespan in jobs._lifespans:
                        await _enter_lifespan(lifespans, lifespan())
                await self._serve()
            self._lifespans_exited.set_result(None)
        except BaseException as exc:
            if not self._started.done():
                self._started.set_exception(exc)
            if not self._ended.done():
                self._ended.set_exception(exc)
            raise
        return self.summary

    async def started(self) -> None:
        """Wait until the worker has started. Raise its error, if the start failed."""
        started = asyncio.wrap_future(self._started)
        # Retrieve the exception: if the caller is cancelled, asyncio would log it as never retrieved.
        started.add_done_callback(lambda each: each.cancelled() or each.exception())
        # Shielded: cancelling the caller must not cancel the future that the worker sets.
        await asyncio.shield(started)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        # Create both executors here: their handlers inherit the context variables of the caller and of the lifespans.
        self._async_executor = AsyncExecutor(loop, self._run_queue, self._claimer, self._started_jobs)
        self._thread_executor = ThreadExecutor(self._run_queue, self._claimer, self._started_jobs)
        watchdog = self._watchdog = Watchdog(loop, self._claimer, self._run_queue, self._abandon_run, self._interrupt)
        registrations = [self._registration_in(jobs, watchdog) for jobs in self._all_jobs]
        # The first heartbeat raises if a store is unavailable. After the start, the worker retries instead.
        for registration in registrations:
            await run_in_new_thread(registration.refresh)
        tasks = BackgroundTasks([*(registration.refresh for registration in registrations), *self._background_tasks()])
        self._publish_stop = lambda: tasks.run_now(*(registration.refresh for registration in registrations))
        self._log_start()
        pollers = list(self._pollers.values())
        parts: list[_Closable] = [tasks, watchdog, *pollers, self._thread_executor]
        threads = [
            *(_background_thread("poller", poller.run) for poller in pollers),
            _background_thread("background-tasks", tasks.run),
        ]
        reporter = None if self._started_jobs is None else StatusReporter(self._started_jobs, self.status)
        if reporter is not None:
            parts.append(reporter)
            threads.append(_background_thread("status-reporter", reporter.run))
        claimer_main = self._build_claimer_main(registrations, parts, threads)
        # The claimer last: a part that cannot start must raise before the first claim.
        for thread in (
            *threads,
            _background_thread("watchdog", watchdog.run),
            _background_thread("claimer", claimer_main),
        ):
            thread.start()
        self._started.set_result(None)
        if reporter is not None:
            reporter.report_now()
        await self._wait_until_ended()
        await self._async_executor.close()

    async def _wait_until_ended(self) -> None:
        """Wait for the claimer to end. A cancel stops the worker; a second cancel skips the grace period."""
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

    def _build_claimer_main(
        self, registrations: Sequence[Registration], parts: Sequence["_Closable"], threads: Sequence[threading.Thread]
    ) -> Callable[[], None]:
        def run_claimer() -> None:
            error: BaseException | None = None
            try:
                self._claimer.run()
            except BaseException as exc:  # noqa: BLE001 - raised again in `join` or `serve`
                error = exc
            for part in parts:
                part.close()
            # A worker that has ended must not use the store any more.
            for thread in threads:
                thread.join(THREAD_EXIT_TIMEOUT)
            if not self._claimer.is_store_failing:
                for registration in registrations:
                    registration.deregister()
            if self._started_jobs is not None:
                self._started_jobs.mark_clean_exit()
            log.info("worker %s stopped: %s", self.name, self.summary)
            # An error during the start has already set the result.
            if self._ended.done():
                return
            if error is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(error)

        return run_claimer

    def _run_loop(self) -> None:
        try:
            asyncio.run(self.serve())
        except BaseException as exc:  # noqa: BLE001 - raised again in `join`
            self._error = exc

    def _background_tasks(self) -> Sequence[BackgroundTask]:
        tasks: list[BackgroundTask] = []
        for jobs in (source for source in self._sources if isinstance(source, Jobs)):
            store = jobs._backend
            tasks += [UnhandledTypes(store).check, Janitor(store, jobs.retention).purge]
            tasks += [
                Scheduler(store, each).enqueue_due
                for each in jobs._periodic.values()
                if each.call.task.type in self._types_in(jobs) and not self._settings.drain
            ]
        return tasks

    def _submit(self, runs: Sequence[Run]) -> None:
        async_runs = [run for run in runs if run.handler.is_async]
        if async_runs and self._async_executor is not None:
            self._async_executor.submit(async_runs)
        if len(async_runs) < len(runs) and self._thread_executor is not None:
            self._thread_executor.submit([run for run in runs if not run.handler.is_async])

    def _interrupt(self, run: Run, reason: StopReason) -> None:
        executor = self._async_executor if run.handler.is_async else self._thread_executor
        if executor is not None:
            executor.stop(run, reason)

    def _abandon_run(self, run: Run) -> None:
        """Stop extending the lease of a run that does not end, and free its slot."""
        run.handler.source.keeper.end(run.lease)
        self._run_queue.abandon_run(run)
        self._claimer.request_poll()

    def _registration_in(self, jobs: Jobs, watchdog: Watchdog) -> Registration:
        """Return the registration in the store of a Jobs: the types of its tasks, and the tables that belong to it."""
        settings = self._settings
        tables = tuple(each.name for each in self._sources if isinstance(each, Table) and each._jobs is jobs)
        queues = settings.queues if jobs in self._sources else ()
        heartbeat = Heartbeat(
            name=settings.name,
            host=platform.node(),
            pid=os.getpid(),
            version=version("tenure"),
            concurrency=settings.concurrency,
            queues=None if queues is None else (*queues, *tables),
            types=(*self._types_in(jobs), *tables),
        )
        return Registration(jobs._backend, heartbeat, watchdog.blocked_for, lambda: self._claimer.is_stopping)

    def _types_in(self, source: Jobs | Table[Any]) -> tuple[str, ...]:
        """Return the types run for a source."""
        return next((tuple(each.handlers) for each in self._work_sources if self._sources[each.index] is source), ())

    @property
    def _types(self) -> list[str]:
        return [type for source in self._work_sources for type in source.handlers]

    def _log_start(self) -> None:
        settings = self._settings
        queues = "all queues" if settings.queues is None else f"queues {', '.join(settings.queues)}"
        tasks = ", ".join(
            each for source in self._sources if isinstance(source, Jobs) for each in self._types_in(source)
        )
        tables = ", ".join(source.spec.display_name for source in self._sources if isinstance(source, Table))
        parts = [f"tasks {tasks} from {queues}"] * bool(tasks) + [f"rows of {tables}"] * bool(tables)
        log.info("worker %s started: %s; concurrency %s", settings.name, " and ".join(parts), settings.concurrency)

    def _reject_async_blocks_around_sync_tasks(self) -> None:
        for handler in (
            each for source in self._work_sources for each in source.handlers.values() if not each.is_async
        ):
            for around in handler.arounds:
                if inspect.isasyncgenfunction(inspect.unwrap(around)):
                    raise ConfigurationError(
                        f"{getattr(around, '__name__', around)!r} is an async context manager and cannot wrap the "
                        f"synchronous task {handler.type!r}; use a synchronous context manager"
                    )

    def _require_unstarted(self) -> None:
        if self._started.done() or self._thread is not None:
            raise ConfigurationError(ALREADY_RUN)


class _Closable(Protocol):
    def close(self) -> None: ...


def _background_thread(name: str, target: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=target, name=f"tenure-{name}", daemon=True)


async def _enter_lifespan(stack: AsyncExitStack, block: object) -> None:
    if isinstance(block, AbstractContextManager):
        stack.enter_context(block)
    elif isinstance(block, AbstractAsyncContextManager):
        await stack.enter_async_context(block)
    else:
        raise ConfigurationError(f"lifespan returned {checks.short_repr(block)}; return a context manager")


def _wait_for(future: Future[None]) -> None:
    """Wait for the future, in steps: Python handles a signal that arrives just before a wait only after that wait."""
    while not future.done():
        wait([future], SIGNAL_CHECK_INTERVAL)
    future.result()
