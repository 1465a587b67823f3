"""A coroutine's search for jobs, made in threads.

A claim that is found belongs to exactly one: to the coroutine, or, if that is gone, to whoever gives it back.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from tenure.client.claims import ClaimsOf
from tenure.client.keeper import ticks
from tenure.errors import StoreUnavailable

log = logging.getLogger(__name__)

Found = ClaimsOf[Any]


class Look:
    """Made by a coroutine, which alone awaits it and takes its answer; all else may be called from any thread."""

    def __init__(self, find: Callable[[], Found], ends_at: float, closed: str) -> None:
        self.ends_at = ends_at
        self._closed = closed
        self._find: Callable[[], Found] = partial(copy_context().run, find)
        self._running = threading.Lock()
        # Whoever takes the answer out owns it: to take it is one step, needs no lock, and only one can.
        self._answer: deque[Found | BaseException] = deque()
        self._is_answered = False
        self._is_left = False
        self._loop = asyncio.get_running_loop()
        self._woken = self._loop.create_future()

    @property
    def is_waiting(self) -> bool:
        return not self._is_answered and not self._is_left

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the answer, so long at most; return whether it is there."""
        done, _ = await asyncio.wait([self._woken], timeout=seconds)
        return bool(done)

    def take(self) -> Found:
        """Return what was found, or raise why nothing could be."""
        try:
            answer = self._answer.pop()
        except IndexError:
            raise StoreUnavailable(self._closed) from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def run(self) -> bool:
        """Look once; return whether the next in line may find something too. What goes wrong is also the answer."""
        with self._running:
            if not self.is_waiting:
                return True
            try:
                claims = self._find()
            except BaseException as exc:
                self._deliver(exc)
                raise
            if claims or ticks() >= self.ends_at:
                self._deliver(claims)
            return bool(claims)

    def fail(self, error: Exception) -> None:
        """Answer with what went wrong for all who wait."""
        with self._running:
            if self.is_waiting:
                # One of its own for each: raised in many places, one would grow a traceback of them all.
                self._deliver(StoreUnavailable(*error.args) if isinstance(error, StoreUnavailable) else error)

    def leave(self) -> bool:
        """Want no answer any more; return whether there is one already, to be undone."""
        self._is_left = True
        return bool(self._answer)

    def close(self) -> None:
        """Let the coroutine end without an answer."""
        self._is_left = True
        self._wake()
        self.undo()

    def undo(self) -> None:
        """Give back what was found for a coroutine that is gone."""
        try:
            answer = self._answer.pop()
        except IndexError:
            return
        if not isinstance(answer, ClaimsOf):
            return
        try:
            answer._settle_the_rest(None)
        except Exception as exc:  # noqa: BLE001 - nobody is left to be told
            log.warning(
                "claims of a cancelled call could not be released, their leases will run out: %s",
                exc,
                extra={"jobs": [claim.id for claim in answer]},
            )

    def _deliver(self, answer: Found | BaseException) -> None:
        self._is_answered = True
        self._answer.append(answer)
        self._wake()
        # Only after it was put there: whoever leaves looks for it only after having said so.
        if self._is_left:
            self.undo()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._note)
        except RuntimeError:
            # The loop is closed: nobody will come for the answer.
            self._is_left = True

    def _note(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)
