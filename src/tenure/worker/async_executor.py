"""Run async tasks in slots: long-lived asyncio tasks on the event loop.

A slot runs one job after another, which saves creating an asyncio task for each job. State must not leak from one run
to the next: a slot is replaced if a handler changed its context variables or if it was cancelled.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context

from tenure.client.aio.threads import run_in_new_thread
from tenure.client.keeper import ticks
from tenure.client.run import CURRENT_RUN, Run, StopReason
from tenure.core.log_fields import job_log_fields
from tenure.worker.claimer import Claimer
from tenure.worker.handler import error_for_log, is_ctrl_c
from tenure.worker.run_queue import RunQueue
from tenure.worker.started_jobs import StartedJobs

_MISSING = object()
log = logging.getLogger(__name__)

YIELD_INTERVAL = 0.005
"""Seconds that a slot runs handlers that never wait, before it yields to the event loop."""


class AsyncExecutor:
    """Used in the thread of the event loop only, except `submit` and `stop`, which any thread may call."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run_queue: RunQueue,
        claimer: Claimer,
        started_jobs: StartedJobs | None = None,
    ) -> None:
        self.loop = loop
        self.run_queue = run_queue
        self.claimer = claimer
        self.started_jobs = started_jobs
        self.context = copy_context()
        self.idle: list[ExecutorSlot] = []
        self._slots: set[ExecutorSlot] = set()

    def submit(self, runs: Sequence[Run]) -> None:
        """Start these runs."""
        self._call_in_loop(self._start, runs)

    def stop(self, run: Run, reason: StopReason) -> None:
        """Cancel the handler of this run, if it is still running."""
        self._call_in_loop(self.stop_in_loop, run, reason)

    def stop_in_loop(self, run: Run, reason: StopReason) -> None:
        """Like `stop`, for callers in the thread of the event loop."""
        run.stop_reason = reason
        if isinstance(run.slot, ExecutorSlot):
            run.slot.task.cancel(reason)

    def add(self, run: Run, *, is_started: bool = False) -> None:
        """Start a run in a new slot."""
        slot = ExecutorSlot(self, run, is_started=is_started)
        self._slots.add(slot)
        slot.task.add_done_callback(lambda _: self._slots.discard(slot))

    async def close(self) -> None:
        """End the idle slots. A handler that does not end stays on the event loop."""
        tasks = [slot.task for slot in self.idle]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _call_in_loop(self, function: Callable[..., object], *args: object) -> None:
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            # The loop is closed, so no handler runs there. The claimer releases the jobs when the worker stops.
            log.debug("event loop of the worker is closed")

    def _start(self, runs: Sequence[Run]) -> None:
        for run in runs:
            while self.idle:
                slot = self.idle.pop()
                if slot.assign(run):
                    break
            else:
                self.add(run)


class ExecutorSlot:
    """Run the assigned jobs, and after each the next job of the run queue."""

    __slots__ = ("_assigned", "_executor", "task")

    def __init__(self, executor: AsyncExecutor, run: Run, *, is_started: bool) -> None:
        self._executor = executor
        self._assigned: asyncio.Future[Run] = executor.loop.create_future()
        self.task = executor.loop.create_task(
            self._serve(run, is_started=is_started), name="tenure-slot", context=executor.context.copy()
        )

    def assign(self, run: Run) -> bool:
        """Run a job in this slot. Return False if the slot was cancelled."""
        if self._assigned.done():
            return False
        self._assigned.set_result(run)
        return True

    async def _serve(self, assigned: Run, *, is_started: bool) -> None:
        executor = self._executor
        while True:
            run: Run | None = assigned if is_started or executor.run_queue.mark_started(assigned) else None
            yield_at = ticks() + YIELD_INTERVAL
            while run is not None:
                now = ticks()
                if now > yield_at:
                    await asyncio.sleep(0)
                    now = ticks()
                    yield_at = now + YIELD_INTERVAL
                is_clean = True
                if (rejection := run.rejection(now)) is None:
                    is_clean = await self._run(run, now)
                else:
                    executor.claimer.settle(run, rejection)
                run = executor.run_queue.next_after(run)
                if not is_clean:
                    if run is None:
                        executor.claimer.notify_idle_slot()
                    else:
                        executor.add(run, is_started=True)
                    return
            assigned = await self._wait_for_run()
            is_started = False

    async def _run(self, run: Run, now: float) -> bool:
        """Run a handler to its end; return whether the slot is clean and can be used again."""
        handler, executor = run.handler, self._executor
        run.slot, run.started_at = self, now
        CURRENT_RUN.set(run)
        before = copy_context()
        limit = handler.time_limit(run.job)
        timer = (
            None
            if limit is None
            else executor.loop.call_later(limit, executor.stop_in_loop, run, StopReason.TIME_LIMIT)
        )
        value, error = None, None
        if executor.started_jobs is not None:
            executor.started_jobs.add(run, handler.source.index)
        try:
            value = await handler.call_async(run)
        except BaseException as exc:  # noqa: BLE001 - any exception ends this run, not the worker
            error = exc
        run.slot = None
        if timer is not None:
            timer.cancel()
        if executor.claimer.is_stopping and run.stop_reason is None and isinstance(error, asyncio.CancelledError):
            run.stop_reason = StopReason.SHUTDOWN
        if run.has_unknown_outcome():
            if run.unconfirmed is None:
                await self._resolve_transaction(run, error)
            # The claimer sends a settlement of the handler again that was not recorded.
            executor.claimer.settle(run, run.unconfirmed)
        else:
            executor.claimer.settle(run, handler.settlement_for(run, value, error))
        if is_ctrl_c(error):
            raise error
        return _is_same_context(copy_context(), before) and not self.task.cancelling()

    async def _resolve_transaction(self, run: Run, error: BaseException | None) -> None:
        """Find out whether the transaction in which the handler settled its run was committed."""
        try:
            await run_in_new_thread(lambda: run.settle_on_exit(error))
        except Exception as exc:  # noqa: BLE001 - logged; there is no caller to raise to
            log.warning(
                "job %s: could not check whether it was settled: %s",
                run.id,
                error_for_log(exc),
                extra=job_log_fields(run.job),
            )

    async def _wait_for_run(self) -> Run:
        CURRENT_RUN.set(None)
        self._executor.claimer.notify_idle_slot()
        self._assigned = self._executor.loop.create_future()
        self._executor.idle.append(self)
        try:
            return await self._assigned
        except asyncio.CancelledError:
            if self in self._executor.idle:
                self._executor.idle.remove(self)
            raise


def _is_same_context(one: Context, other: Context) -> bool:
    """Return whether all variables hold the same objects. Compared by identity, since `==` would run user code."""
    if len(one) != len(other):
        return False
    for variable, value in one.items():  # noqa: SIM110 - runs for every job; a loop is faster
        if other.get(variable, _MISSING) is not value:
            return False
    return True
