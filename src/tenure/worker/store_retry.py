"""Retry the requests of the claimer while a store is unavailable.

A request is resent with the same token, so that a claim whose response was lost is found again.
"""

import logging
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tenure.backends.shared.isolation import StatementRejected
from tenure.client.keeper import ticks
from tenure.core.operations import Claimed, ClaimRequest, Settled, Settlement
from tenure.errors import StoreUnavailable

log = logging.getLogger(__name__)

MIN_BACKOFF, MAX_BACKOFF = 0.05, 1.0
"""Seconds between two tries: the worker notices within a second that a store is back."""

REJECTION_LOG_INTERVAL = 600.0
"""Seconds after which a rejection is logged again, if its reason is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One round trip: settlements, a claim, or both."""

    settlements: list[Settlement]
    claim_request: ClaimRequest | None
    sent_at: float
    """When the request was first sent: its leases count from then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    settled: Sequence[Settled]
    claimed: Claimed | None
    elapsed: float
    """Seconds from the request to the response."""


class ClaimsAndSettles(Protocol):
    """The part of `Claiming` that the claimer uses."""

    def claim(self, request: ClaimRequest) -> Claimed: ...

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]: ...

    def exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest
    ) -> tuple[Sequence[Settled], Claimed]: ...


class RejectionLog:
    """Decides whether to log a rejection: not if the last one had the same reason. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._logged_at = 0.0

    def includes(self, reason: str) -> bool:
        """Return whether to log a rejection for this reason now."""
        now = ticks()
        with self._lock:
            if reason == self._reason and now < self._logged_at + REJECTION_LOG_INTERVAL:
                return False
            self._reason, self._logged_at = reason, now
        return True


class RetryingStore:
    """Send requests to a store. Log an outage once when it begins and once when it ends.

    A claim that the database rejects is no outage, and is logged by its reason.
    """

    def __init__(self, store: ClaimsAndSettles) -> None:
        self._store = store
        self._failing_since: float | None = None
        self._backoff = MIN_BACKOFF
        self._rejection_log = RejectionLog()

    @property
    def is_failing(self) -> bool:
        return self._failing_since is not None

    def send(self, request: Request) -> Response | None:
        """Return the response; None if the request failed and must be resent after `next_backoff()` seconds."""
        try:
            response = self._send(request)
        except StatementRejected as exc:
            self._record_rejection(exc)
            return None
        except Exception as exc:  # noqa: BLE001 - the worker must survive any error; the request can be resent
            self._record_failure(exc)
            return None
        self._record_success()
        return response

    def next_backoff(self) -> float:
        """Return the seconds to wait before the next try: doubled each time, with jitter."""
        self._backoff = min(MAX_BACKOFF, 2 * self._backoff)
        return self._backoff * random.uniform(0.5, 1.0)

    def _send(self, store_request: Request) -> Response:
        settlements, request = store_request.settlements, store_request.claim_request
        settled: Sequence[Settled] = []
        claimed: Claimed | None = None
        started_at = ticks()
        if request is None:
            settled = self._store.settle(settlements)
        elif not settlements:
            claimed = self._store.claim(request)
        else:
            settled, claimed = self._store.exchange(settlements, request)
        return Response(settled=settled, claimed=claimed, elapsed=ticks() - started_at)

    def _record_failure(self, exc: Exception) -> None:
        if self._failing_since is not None:
            return
        self._failing_since = ticks()
        if isinstance(exc, StoreUnavailable):
            log.warning("store unavailable, retrying: %s", exc)
        else:
            log.error("claim or settle failed, retrying", exc_info=exc)

    def _record_rejection(self, exc: StatementRejected) -> None:
        if self._failing_since is not None:
            self._end_outage(self._failing_since)
        if self._rejection_log.includes(exc.reason):
            log.error("claims rejected, retrying: %s", exc)

    def _record_success(self) -> None:
        if self._failing_since is not None:
            self._end_outage(self._failing_since)
        self._backoff = MIN_BACKOFF

    def _end_outage(self, failing_since: float) -> None:
        log.warning("store available again after %.1f s", ticks() - failing_since)
        self._failing_since = None
