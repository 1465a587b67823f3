"""Slots for synchronous tasks: threads that run one job after the other."""

import logging
import threading
from collections.abc import Sequence
from contextvars import copy_context
from queue import Empty, SimpleQueue

from tenure.client.keeper import ticks
from tenure.client.run import CURRENT, Run, Stop
from tenure.core.log_fields import facts
from tenure.worker.claimer import Claimer
from tenure.worker.handler import logged
from tenure.worker.interrupt import Interruptible
from tenure.worker.run_queue import Board
from tenure.worker.started_jobs import Ledger
from tenure.worker.timeouts import Limits

log = logging.getLogger(__name__)

LINGER = 10.0
"""Seconds that a thread stays when there is nothing to run."""


class ThreadSlots:
    """Started when they are needed, at most as many as jobs run at once. Any thread may call this.

    They are daemons: a handler that does not end cannot keep the process from ending.
    """

    def __init__(self, board: Board, claimer: Claimer, ledger: Ledger | None = None) -> None:
        self._board = board
        self._claimer = claimer
        self._ledger = ledger
        self._context = copy_context()
        self._limits = Limits(self.stop)
        self._lock = threading.Lock()
        self._given: SimpleQueue[Run | None] = SimpleQueue()
        self._idle = 0
        self._is_closed = False

    def hand_over(self, runs: Sequence[Run]) -> None:
        """Have these runs begun."""
        for run in runs:
            with self._lock:
                is_one_idle = self._idle > 0
                self._idle -= is_one_idle
            if is_one_idle:
                self._given.put(run)
            else:
                threading.Thread(target=self._serve, args=(run,), name="tenure-task", daemon=True).start()

    def stop(self, run: Run, why: Stop) -> None:
        """Tell the handler of this run that it should end; if its time is over, interrupt it."""
        run.stop = why
        if why in {Stop.TIME_LIMIT, Stop.SHUTDOWN} and isinstance(run.slot, Interruptible):
            run.slot.interrupt()

    def close(self) -> None:
        """End the threads, those that are busy when their handlers end."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._given.put(None)
        self._limits.close()

    def _serve(self, given: Run | None) -> None:
        while given is not None:
            run: Run | None = given if self._board.begin(given) else None
            while run is not None:
                now = ticks()
                if (refusal := run.refusal(now)) is None:
                    self._run(run, now)
                else:
                    self._claimer.settle(run, refusal)
                run = self._board.next_after(run)
            given = self._wait()

    def _run(self, run: Run, now: float) -> None:
        handler = run.handler
        context = self._context.copy()
        context.run(CURRENT.set, run)
        slot = Interruptible()
        run.slot, run.started_at = slot, now
        limit = handler.time_limit(run.job)
        if limit is not None:
            self._limits.add(run, now + limit)
        if self._ledger is not None:
            self._ledger.begin(run, handler.supply.number)
        value, error = slot.run(lambda: context.run(handler.call, run))
        run.slot = None
        if limit is not None:
            self._limits.discard(run)
        if run.is_unclear():
            self._leave(run, error)
            self._claimer.settle(run, None)
        else:
            self._claimer.settle(run, handler.ending(run, value, error))

    def _leave(self, run: Run, error: BaseException | None) -> None:
        """Settle a run whose handler did so in a transaction of its own, by what became of that."""
        try:
            run.leave(error)
        except Exception as exc:  # noqa: BLE001 - nobody is left to be told
            log.warning("what became of job %s could not be asked: %s", run.id, logged(exc), extra=facts(run.job))

    def _wait(self) -> Run | None:
        self._claimer.starve()
        with self._lock:
            if self._is_closed:
                return None
            self._idle += 1
        while True:
            try:
                return self._given.get(timeout=LINGER)
            except Empty:
                with self._lock:
                    # Without one that is idle, a run is on its way to this thread.
                    if self._idle > 0:
                        self._idle -= 1
                        return None
