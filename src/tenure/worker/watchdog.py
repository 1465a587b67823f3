"""Detect a blocked event loop, a blocked claimer, and handlers that ignore their time limit.

Runs in its own thread, which never blocks on the parts that it watches.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable

from tenure.client.keeper import ticks
from tenure.client.run import Run, StopReason
from tenure.core.log_fields import job_log_fields
from tenure.worker.claimer import Claimer
from tenure.worker.run_queue import RunQueue

log = logging.getLogger(__name__)

CHECK_INTERVAL = 0.5
LOOP_BLOCKED_AFTER = 2.0
"""Seconds after which a blocked event loop is logged and its jobs that have not started are released."""
CLAIMER_BLOCKED_AFTER = 30.0
"""Seconds after which a blocked claimer is logged."""


class Watchdog:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        claimer: Claimer,
        run_queue: RunQueue,
        abandon_run: Callable[[Run], None],
        interrupt: Callable[[Run, StopReason], None],
    ) -> None:
        self._interrupt = interrupt
        self._loop = loop
        self._claimer = claimer
        self._run_queue = run_queue
        self._abandon_run = abandon_run
        self._loop_thread = threading.get_ident()
        self._probed_at = ticks()
        self._is_probe_pending = False
        self._is_claimer_blocked = False
        self._closing = threading.Event()

    def blocked_for(self) -> float:
        """Return for how many seconds the event loop or the claimer has been blocked, whichever is longer."""
        loop = ticks() - self._probed_at if self._is_probe_pending else 0.0
        return max(0.0, loop - CHECK_INTERVAL, ticks() - self._claimer.last_iteration_at - CHECK_INTERVAL)

    def run(self) -> None:
        while not self._closing.wait(CHECK_INTERVAL):
            self._check_loop()
            self._check_claimer()
            self._check_handlers()

    def close(self) -> None:
        self._closing.set()

    def _check_loop(self) -> None:
        if not self._is_probe_pending:
            self._is_probe_pending = True
            self._probed_at = ticks()
            try:
                self._loop.call_soon_threadsafe(self._on_probe_response)
            except RuntimeError:  # the loop is closed
                self._closing.set()
        elif not self._claimer.is_loop_blocked and ticks() - self._probed_at > LOOP_BLOCKED_AFTER:
            self._claimer.is_loop_blocked = True
            self._claimer.request_poll()
            log.error(
                "event loop blocked for more than %g s by code that does not await. Its stack:\n%s",
                LOOP_BLOCKED_AFTER,
                _format_stack(self._loop_thread),
            )

    def _on_probe_response(self) -> None:
        """Record that the event loop runs callbacks again. Called by the event loop."""
        self._is_probe_pending = False
        if self._claimer.is_loop_blocked:
            self._claimer.is_loop_blocked = False
            self._claimer.request_poll()
            log.warning("event loop running again after %.1f s", ticks() - self._probed_at)

    def _check_claimer(self) -> None:
        is_blocked = ticks() - self._claimer.last_iteration_at > CLAIMER_BLOCKED_AFTER
        if is_blocked and not self._is_claimer_blocked:
            log.error("claimer blocked for more than %g s by a request to the store", CLAIMER_BLOCKED_AFTER)
        self._is_claimer_blocked = is_blocked

    def _check_handlers(self) -> None:
        """Abandon handlers that run long after their time limit: their jobs must not be held for ever."""
        now = ticks()
        for run in self._run_queue.started_runs():
            if run.stop_reason is None and run.lease.is_lost:
                # Normally the keeper stops a lost run, but the keeper may be blocked by the store.
                self._interrupt(run, StopReason.LOST)
            limit = run.handler.time_limit(run.job)
            if limit is not None and run.started_at is not None and now > run.started_at + limit + run.lease.length:
                log.error(
                    "job %s ran past its time limit and does not stop; its lease is abandoned",
                    run.id,
                    extra=job_log_fields(run.job),
                )
                self._abandon_run(run)


def _format_stack(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    return "".join(traceback.format_stack(frame)) if frame is not None else "(not available)\n"
