"""Slots for async tasks: long-lived coroutines on the event loop.

A slot runs one job after the other, so that no task of the event loop is made for each. It must not carry anything from
one run to the next: a slot whose context variables a handler changed, or which was cancelled, is replaced.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context

from tenure.client.aio.threads import run_alone
from tenure.client.keeper import ticks
from tenure.client.run import CURRENT, Run, Stop
from tenure.core.log_fields import facts
from tenure.worker.claimer import Claimer
from tenure.worker.handler import is_from_keyboard, logged
from tenure.worker.run_queue import Board
from tenure.worker.started_jobs import Ledger

_NOTHING = object()
log = logging.getLogger(__name__)

TURN = 0.005
"""Seconds that a slot runs handlers which never wait, before it lets others have their turn."""


class LoopSlots:
    """Used in the thread of the loop, but for `hand_over` and `stop`, which any thread may call."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, board: Board, claimer: Claimer, ledger: Ledger | None = None
    ) -> None:
        self.loop = loop
        self.board = board
        self.claimer = claimer
        self.ledger = ledger
        self.context = copy_context()
        self.idle: list[Slot] = []
        self._slots: set[Slot] = set()

    def hand_over(self, runs: Sequence[Run]) -> None:
        """Have these runs begun."""
        self._call(self._begin, runs)

    def stop(self, run: Run, why: Stop) -> None:
        """Cancel the handler of this run, if it still runs."""
        self._call(self.stop_here, run, why)

    def stop_here(self, run: Run, why: Stop) -> None:
        """Do that, in the thread of the loop."""
        run.stop = why
        if isinstance(run.slot, Slot):
            run.slot.task.cancel(why)

    def add(self, run: Run, *, has_begun: bool = False) -> None:
        """Have a run in a slot of its own."""
        slot = Slot(self, run, has_begun=has_begun)
        self._slots.add(slot)
        slot.task.add_done_callback(lambda _: self._slots.discard(slot))

    async def close(self) -> None:
        """End the slots that are idle. A handler that does not end is left to the loop."""
        tasks = [slot.task for slot in self.idle]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _call(self, function: Callable[..., object], *args: object) -> None:
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            # The loop is closed: nothing runs there any more, and what was held is released at the end.
            log.debug("the event loop of the worker is closed")

    def _begin(self, runs: Sequence[Run]) -> None:
        for run in runs:
            while self.idle:
                slot = self.idle.pop()
                if slot.give(run):
                    break
            else:
                self.add(run)


class Slot:
    """Runs the jobs that it is given, and those that it finds on the board after them."""

    __slots__ = ("_given", "_slots", "task")

    def __init__(self, slots: LoopSlots, run: Run, *, has_begun: bool) -> None:
        self._slots = slots
        self._given: asyncio.Future[Run] = slots.loop.create_future()
        self.task = slots.loop.create_task(
            self._serve(run, has_begun=has_begun), name="tenure-slot", context=slots.context.copy()
        )

    def give(self, run: Run) -> bool:
        """Have it run here; not if somebody has cancelled this slot."""
        if self._given.done():
            return False
        self._given.set_result(run)
        return True

    async def _serve(self, given: Run, *, has_begun: bool) -> None:
        slots = self._slots
        while True:
            run: Run | None = given if has_begun or slots.board.begin(given) else None
            turn_ends_at = ticks() + TURN
            while run is not None:
                now = ticks()
                if now > turn_ends_at:
                    await asyncio.sleep(0)
                    now = ticks()
                    turn_ends_at = now + TURN
                is_clean = True
                if (refusal := run.refusal(now)) is None:
                    is_clean = await self._run(run, now)
                else:
                    slots.claimer.settle(run, refusal)
                run = slots.board.next_after(run)
                if not is_clean:
                    if run is None:
                        slots.claimer.starve()
                    else:
                        slots.add(run, has_begun=True)
                    return
            given = await self._wait()
            has_begun = False

    async def _run(self, run: Run, now: float) -> bool:
        """Run a handler to its end, and return whether this slot is as it was before."""
        handler, slots = run.handler, self._slots
        run.slot, run.started_at = self, now
        CURRENT.set(run)
        before = copy_context()
        limit = handler.time_limit(run.job)
        timer = None if limit is None else slots.loop.call_later(limit, slots.stop_here, run, Stop.TIME_LIMIT)
        value, error = None, None
        if slots.ledger is not None:
            slots.ledger.begin(run, handler.supply.number)
        try:
            value = await handler.call_async(run)
        except BaseException as exc:  # noqa: BLE001 - it is the end of this run, whatever it is, not of the worker
            error = exc
        run.slot = None
        if timer is not None:
            timer.cancel()
        if slots.claimer.is_stopping and run.stop is None and isinstance(error, asyncio.CancelledError):
            run.stop = Stop.SHUTDOWN
        if run.is_unclear():
            await self._leave(run, error)
            slots.claimer.settle(run, None)
        else:
            slots.claimer.settle(run, handler.ending(run, value, error))
        if is_from_keyboard(error):
            raise error
        return _are_same(copy_context(), before) and not self.task.cancelling()

    async def _leave(self, run: Run, error: BaseException | None) -> None:
        """Settle a run whose handler did so in a transaction of its own, by what became of that."""
        try:
            await run_alone(lambda: run.leave(error))
        except Exception as exc:  # noqa: BLE001 - nobody is left to be told
            log.warning("what became of job %s could not be asked: %s", run.id, logged(exc), extra=facts(run.job))

    async def _wait(self) -> Run:
        CURRENT.set(None)
        self._slots.claimer.starve()
        self._given = self._slots.loop.create_future()
        self._slots.idle.append(self)
        try:
            return await self._given
        except asyncio.CancelledError:
            if self in self._slots.idle:
                self._slots.idle.remove(self)
            raise


def _are_same(one: Context, other: Context) -> bool:
    """Tell whether all variables are the same objects; what they are equal to is for their owners to know."""
    if len(one) != len(other):
        return False
    for variable, value in one.items():  # noqa: SIM110 - once for every job, and quicker so
        if other.get(variable, _NOTHING) is not value:
            return False
    return True
