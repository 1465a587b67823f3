"""Run synchronous tasks in a pool of threads."""

import logging
import threading
from collections.abc import Sequence
from contextvars import copy_context
from queue import Empty, SimpleQueue

from tenure.client.keeper import ticks
from tenure.client.run import CURRENT_RUN, Run, StopReason
from tenure.core.log_fields import job_log_fields
from tenure.worker.claimer import Claimer
from tenure.worker.handler import error_for_log
from tenure.worker.interrupt import Interruptible
from tenure.worker.run_queue import RunQueue
from tenure.worker.started_jobs import StartedJobs
from tenure.worker.timeouts import Timeouts

log = logging.getLogger(__name__)

IDLE_THREAD_TTL = 10.0
"""Seconds that an idle thread waits for a run before it ends."""


class ThreadExecutor:
    """Start threads on demand, at most as many as runs at a time. Thread-safe.

    The threads are daemons: a handler that does not end cannot keep the process from exiting.
    """

    def __init__(self, run_queue: RunQueue, claimer: Claimer, started_jobs: StartedJobs | None = None) -> None:
        self._run_queue = run_queue
        self._claimer = claimer
        self._started_jobs = started_jobs
        self._context = copy_context()
        self._timeouts = Timeouts(self.stop)
        self._lock = threading.Lock()
        self._assigned: SimpleQueue[Run | None] = SimpleQueue()
        self._idle = 0
        self._is_closed = False

    def submit(self, runs: Sequence[Run]) -> None:
        """Start these runs."""
        for run in runs:
            with self._lock:
                has_idle_thread = self._idle > 0
                self._idle -= has_idle_thread
            if has_idle_thread:
                self._assigned.put(run)
            else:
                threading.Thread(target=self._serve, args=(run,), name="tenure-task", daemon=True).start()

    def stop(self, run: Run, reason: StopReason) -> None:
        """Ask the handler of this run to end; after a time limit or at shutdown, interrupt it."""
        run.stop_reason = reason
        if reason in {StopReason.TIME_LIMIT, StopReason.SHUTDOWN} and isinstance(run.slot, Interruptible):
            run.slot.interrupt()

    def close(self) -> None:
        """End the threads; busy threads end after their handler."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._assigned.put(None)
        self._timeouts.close()

    def _serve(self, assigned: Run | None) -> None:
        while assigned is not None:
            run: Run | None = assigned if self._run_queue.mark_started(assigned) else None
            while run is not None:
                now = ticks()
                if (rejection := run.rejection(now)) is None:
                    self._run(run, now)
                else:
                    self._claimer.settle(run, rejection)
                run = self._run_queue.next_after(run)
            assigned = self._wait_for_run()

    def _run(self, run: Run, now: float) -> None:
        handler = run.handler
        context = self._context.copy()
        context.run(CURRENT_RUN.set, run)
        slot = Interruptible()
        run.slot, run.started_at = slot, now
        limit = handler.time_limit(run.job)
        if limit is not None:
            self._timeouts.add(run, now + limit)
        if self._started_jobs is not None:
            self._started_jobs.add(run, handler.source.index)
        value, error = slot.run(lambda: context.run(handler.call, run))
        run.slot = None
        if limit is not None:
            self._timeouts.discard(run)
        if run.has_unknown_outcome():
            if run.unconfirmed is None:
                self._resolve_transaction(run, error)
            # The claimer sends a settlement of the handler again that was not recorded.
            self._claimer.settle(run, run.unconfirmed)
        else:
            self._claimer.settle(run, handler.settlement_for(run, value, error))

    def _resolve_transaction(self, run: Run, error: BaseException | None) -> None:
        """Find out whether the transaction in which the handler settled its run was committed."""
        try:
            run.settle_on_exit(error)
        except Exception as exc:  # noqa: BLE001 - logged; there is no caller to raise to
            log.warning(
                "job %s: could not check whether it was settled: %s",
                run.id,
                error_for_log(exc),
                extra=job_log_fields(run.job),
            )

    def _wait_for_run(self) -> Run | None:
        self._claimer.notify_idle_slot()
        with self._lock:
            if self._is_closed:
                return None
            self._idle += 1
        while True:
            try:
                return self._assigned.get(timeout=IDLE_THREAD_TTL)
            except Empty:
                with self._lock:
                    # If the count is zero, a run is on its way to this thread.
                    if self._idle > 0:
                        self._idle -= 1
                        return None
