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

AnyClaims = ClaimsOf[Any]


class PendingClaim:
    """Made by a coroutine, which alone awaits it and takes its answer; all else may be called from any thread."""

    def __init__(self, claim_once: Callable[[], AnyClaims], ends_at: float, closed_message: str) -> None:
        self.ends_at = ends_at
        self._closed_message = closed_message
        self._claim_once: Callable[[], AnyClaims] = partial(copy_context().run, claim_once)
        self._running = threading.Lock()
        # Whoever takes the answer out owns it: to take it is one step, needs no lock, and only one can.
        self._response: deque[AnyClaims | BaseException] = deque()
        self._has_response = False
        self._is_abandoned = False
        self._loop = asyncio.get_running_loop()
        self._ready = self._loop.create_future()

    @property
    def is_waiting(self) -> bool:
        return not self._has_response and not self._is_abandoned

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the answer, so long at most; return whether it is there."""
        done, _ = await asyncio.wait([self._ready], timeout=seconds)
        return bool(done)

    def take(self) -> AnyClaims:
        """Return what was found, or raise why nothing could be."""
        try:
            response = self._response.pop()
        except IndexError:
            raise StoreUnavailable(self._closed_message) from None
        if isinstance(response, BaseException):
            raise response
        return response

    def poll(self) -> bool:
        """Look once; return whether the next in line may find something too. What goes wrong is also the answer."""
        with self._running:
            if not self.is_waiting:
                return True
            try:
                claims = self._claim_once()
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

    def abandon(self) -> bool:
        """Want no answer any more; return whether there is one already, to be undone."""
        self._is_abandoned = True
        return bool(self._response)

    def close(self) -> None:
        """Let the coroutine end without an answer."""
        self._is_abandoned = True
        self._wake()
        self.release_claims()

    def release_claims(self) -> None:
        """Give back what was found for a coroutine that is gone."""
        try:
            response = self._response.pop()
        except IndexError:
            return
        if not isinstance(response, ClaimsOf):
            return
        try:
            response._settle_unsettled(None)
        except Exception as exc:  # noqa: BLE001 - the caller is gone
            log.warning(
                "claims of a cancelled call not released, their leases will expire: %s",
                exc,
                extra={"jobs": [claim.id for claim in response]},
            )

    def _deliver(self, response: AnyClaims | BaseException) -> None:
        self._has_response = True
        self._response.append(response)
        self._wake()
        # Only after it was put there: whoever leaves looks for it only after having said so.
        if self._is_abandoned:
            self.release_claims()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._set_ready)
        except RuntimeError:
            # The loop is closed: nobody will come for the answer.
            self._is_abandoned = True

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)
