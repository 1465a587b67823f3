"""Notices an event loop that stands still, and a claimer that does not turn.

In a thread of its own that asks nobody anything: what it watches cannot hold it up.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable

from tenure.client.keeper import ticks
from tenure.client.run import Run, Stop
from tenure.core.log_fields import facts
from tenure.worker.claimer import Claimer
from tenure.worker.run_queue import Board

log = logging.getLogger(__name__)

EVERY = 0.5
STALLED = 2.0
"""Seconds after which a loop that does not turn is told about, and loses what it has not begun."""
STUCK = 30.0
"""Seconds after which a claimer that does not turn is told about."""


class Watchdog:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        claimer: Claimer,
        board: Board,
        give_up: Callable[[Run], None],
        interrupt: Callable[[Run, Stop], None],
    ) -> None:
        self._interrupt = interrupt
        self._loop = loop
        self._claimer = claimer
        self._board = board
        self._give_up = give_up
        self._loop_thread = threading.get_ident()
        self._loop_turned_at = ticks()
        self._is_asked = False
        self._is_claimer_stuck = False
        self._closing = threading.Event()

    def quiet_for(self) -> float:
        """Return for how many seconds the loop or the claimer has not turned, whichever is longer."""
        loop = ticks() - self._loop_turned_at if self._is_asked else 0.0
        return max(0.0, loop - EVERY, ticks() - self._claimer.turned_at - EVERY)

    def run(self) -> None:
        while not self._closing.wait(EVERY):
            self._look_at_the_loop()
            self._look_at_the_claimer()
            self._look_at_the_handlers()

    def close(self) -> None:
        self._closing.set()

    def _look_at_the_loop(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._loop_turned_at = ticks()
            try:
                self._loop.call_soon_threadsafe(self._note_turn)
            except RuntimeError:  # it is closed
                self._closing.set()
        elif not self._claimer.is_loop_stalled and ticks() - self._loop_turned_at > STALLED:
            self._claimer.is_loop_stalled = True
            self._claimer.look()
            log.error(
                "the event loop stands still for more than %g s: something in it does not await. It is at:\n%s",
                STALLED,
                _stack_of(self._loop_thread),
            )

    def _note_turn(self) -> None:
        """Note that the loop turns. The loop calls this."""
        self._is_asked = False
        if self._claimer.is_loop_stalled:
            self._claimer.is_loop_stalled = False
            self._claimer.look()
            log.warning("the event loop turns again, after %.1f s", ticks() - self._loop_turned_at)

    def _look_at_the_claimer(self) -> None:
        is_stuck = ticks() - self._claimer.turned_at > STUCK
        if is_stuck and not self._is_claimer_stuck:
            log.error("the worker has not claimed or settled for more than %g s: the store holds it up", STUCK)
        self._is_claimer_stuck = is_stuck

    def _look_at_the_handlers(self) -> None:
        """Give up those that go on long after their time limit: their jobs must not be held for ever."""
        now = ticks()
        for run in self._board.begun():
            if run.stop is None and run.lease.is_lost:
                # The keeper would say so, but the store may hold it up.
                self._interrupt(run, Stop.LOST)
            limit = run.handler.time_limit(run.job)
            if limit is not None and run.started_at is not None and now > run.started_at + limit + run.lease.length:
                log.error("job %s does not end after its time limit: its lease is let go", run.id, extra=facts(run.job))
                self._give_up(run)


def _stack_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    return "".join(traceback.format_stack(frame)) if frame is not None else "a place that cannot be told\n"
