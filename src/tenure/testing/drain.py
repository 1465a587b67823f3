"""Run the due jobs one after the other in the current thread.

The order of jobs, the calls of tasks and the settlements come from the same code as in a worker: the store, `Handler`
and the core.
"""

import asyncio
from contextlib import closing
from contextvars import Context, copy_context
from typing import Any

from tenure.backends.protocol import Backend
from tenure.client.claim import Holder
from tenure.client.identity import default_worker_name, new_token
from tenure.client.jobs import Jobs
from tenure.client.keeper import ticks
from tenure.client.run import CURRENT_RUN, Run, StopReason
from tenure.core.answers import Answer
from tenure.core.job import Job
from tenure.core.operations import LONGEST_LEASE, ClaimRequest, Query
from tenure.errors import ConfigurationError, UnknownTask
from tenure.worker.handler import Handler, TaskHandler

HandlerResult = tuple[Any, BaseException | None]
"""The return value of a handler, and its exception."""


class Drain:
    """One drain of a test queue. Each task runs in its own copy of the context variables."""

    def __init__(self, jobs: Jobs, opened: tuple[Backend, Holder], *, raises: bool) -> None:
        self._jobs = jobs
        self._store, self._holder = opened
        self._raises = raises
        self._context = copy_context()
        self._handlers: dict[str, Handler] = {}
        self._finished_jobs: list[Job] = []

    def run(self) -> list[Job]:
        """Run all due jobs; return the jobs as they ended."""
        _reject_event_loop()
        # Not entered: the runner creates an event loop only when an async task runs.
        with closing(asyncio.Runner()) as runner:
            while (run := self._claim_next()) is not None:
                if run.handler.is_async:
                    runner.run(self._run_async(run))
                else:
                    self._run(run)
        return self._results()

    async def run_async(self) -> list[Job]:
        """Run all due jobs on the current event loop."""
        while (run := self._claim_next()) is not None:
            if run.handler.is_async:
                await self._run_async(run)
            else:
                self._run(run)
        return self._results()

    def _claim_next(self) -> Run | None:
        self._prepare_handlers()
        if not self._handlers:
            return None
        # The longest lease: no keeper extends it, and a debugger may stop the handler.
        request = ClaimRequest(
            types=tuple(self._handlers), lease=LONGEST_LEASE, worker=default_worker_name(), token=new_token()
        )
        sent_at = ticks()
        jobs = self._store.claim(request).jobs
        return self._handlers[jobs[0].type].build_run(jobs[0], request, sent_at) if jobs else None

    def _prepare_handlers(self) -> None:
        """Add handlers for tasks that were registered since the last job, for example by an import."""
        for type, task in self._jobs.tasks.items():
            if type not in self._handlers:
                self._handlers[type] = TaskHandler(task, self._holder, self._jobs._arounds)

    def _run(self, run: Run) -> None:
        value, error = None, None
        try:
            value = self._context_of(run).run(run.handler.call, run)
        except BaseException as exc:  # noqa: BLE001 - recorded on the job, then raised again
            error = exc
        self._settle(run, value, error)

    async def _run_async(self, run: Run) -> None:
        call = asyncio.get_running_loop().create_task(_call_handler(run), context=self._context_of(run))
        why, cancel = StopReason.TIME_LIMIT, None
        try:
            await asyncio.wait([call], timeout=run.handler.time_limit(run.job))
        except asyncio.CancelledError as exc:
            why, cancel = StopReason.SHUTDOWN, exc
        if not call.done():
            run.stop_reason = why
            call.cancel(why)
            await asyncio.wait([call])
        self._settle(run, *call.result())
        if cancel is not None:
            raise cancel

    def _context_of(self, run: Run) -> Context:
        context = self._context.copy()
        context.run(CURRENT_RUN.set, run)
        return context

    def _settle(self, run: Run, value: Any, error: BaseException | None) -> None:
        settlement = run.handler.settlement_for(run, value, error)
        if settlement is not None and self._store.settle([settlement]) == [True]:
            run.record_outcome(settlement.outcome)
        self._holder.keeper.end(run.lease)
        self._finished_jobs += self._store.find(Query(ids=(run.id,))).jobs
        if error is None and not run.is_settled:
            error = run.lost_error()
        self._raise_error(run, error)

    def _raise_error(self, run: Run, error: BaseException | None) -> None:
        """Raise the error of a task in the test; a BaseException such as KeyboardInterrupt also with raises=False."""
        if isinstance(error, asyncio.CancelledError) and run.stop_reason is StopReason.TIME_LIMIT:
            error = run.handler.timeout_error(run)
        if error is None or isinstance(error, Answer):
            return
        if self._raises or not isinstance(error, Exception):
            raise error

    def _results(self) -> list[Job]:
        stats = self._store.stats()
        unknown = {row.type for row in stats.rows if row.due and row.queue not in stats.paused} - self._handlers.keys()
        if self._raises and unknown:
            known = ", ".join(map(repr, sorted(self._handlers))) or "none"
            raise UnknownTask(
                f"due jobs have no registered task: {', '.join(map(repr, sorted(unknown)))} (registered: {known}); "
                "import the module of the task, or skip these jobs with drain(raises=False)"
            )
        return self._finished_jobs


async def _call_handler(run: Run) -> HandlerResult:
    """Call the task of a run and return its exception: an asyncio task that raised SystemExit would stop the loop."""
    try:
        return await run.handler.call_async(run), None
    except BaseException as exc:  # noqa: BLE001 - returned as a value
        return None, exc


def _reject_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError("an event loop is running in this thread: use `await queue.aio.drain()`")
