"""A claim that a coroutine awaits while threads poll the store.

Claims have exactly one owner: the coroutine, or, if the coroutine was cancelled, the thread that releases them.
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
    """Created, awaited and taken by one coroutine; the other methods may be called from any thread."""

    def __init__(self, claim_once: Callable[[], AnyClaims], ends_at: float, closed_message: str) -> None:
        self.ends_at = ends_at
        self._closed_message = closed_message
        self._claim_once: Callable[[], AnyClaims] = partial(copy_context().run, claim_once)
        self._running = threading.Lock()
        # The thread that pops the response owns it: `pop` is atomic and needs no lock.
        self._response: deque[AnyClaims | BaseException] = deque()
        self._has_response = False
        self._is_abandoned = False
        self._loop = asyncio.get_running_loop()
        self._ready = self._loop.create_future()

    @property
    def is_waiting(self) -> bool:
        return not self._has_response and not self._is_abandoned

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the response for up to `seconds`; return whether it has arrived."""
        done, _ = await asyncio.wait([self._ready], timeout=seconds)
        return bool(done)

    def take(self) -> AnyClaims:
        """Return the claims, or raise the error of the request."""
        try:
            response = self._response.pop()
        except IndexError:
            raise StoreUnavailable(self._closed_message) from None
        if isinstance(response, BaseException):
            raise response
        return response

    def poll(self) -> bool:
        """Poll once; return whether the next waiter should poll too. An error is also delivered as the response."""
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
        """Deliver an error that concerns all waiters."""
        with self._running:
            if self.is_waiting:
                # A new exception for each waiter: a shared one would collect the tracebacks of all of them.
                self._deliver(StoreUnavailable(*error.args) if isinstance(error, StoreUnavailable) else error)

    def abandon(self) -> bool:
        """Abandon the request; return whether a response has arrived that must be undone."""
        self._is_abandoned = True
        return bool(self._response)

    def close(self) -> None:
        """End the coroutine without a response, and release claims that it has not taken."""
        self._is_abandoned = True
        self._wake()
        self.release_claims()

    def release_claims(self) -> None:
        """Release the claims of an abandoned request."""
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
        # Check after the append: `abandon` sets the flag before it looks for a response, so one of the two releases.
        if self._is_abandoned:
            self.release_claims()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._set_ready)
        except RuntimeError:
            # The loop is closed: no coroutine will take the response.
            self._is_abandoned = True

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)
