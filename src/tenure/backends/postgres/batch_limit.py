"""Limit the number of jobs in one request: their response may be too large, or their statement too slow."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tenure.backends.postgres.errors import is_timeout, is_too_large
from tenure.core.operations import LARGEST_BATCH, ClaimRequest, Query
from tenure.errors import TenureError

Q = TypeVar("Q", ClaimRequest, Query)
R = TypeVar("R")

FAST_FRACTION = 0.25
"""Fraction of the timeout below which a response is fast, so that the next one may contain more jobs."""


class BatchLimit:
    """Halved after a response that was too large or took too long; doubled after a full response that was fast.

    A response with fewer jobs does not change the limit: the server may still hold the locks of a request that took too
    long.
    """

    def __init__(self, timeout: float) -> None:
        self.most = LARGEST_BATCH
        self._timeout = timeout

    def run(self, request: Q, send: Callable[[Q], R], size_of: Callable[[R], int]) -> R:
        """Send a request for at most as many jobs as fit into a response. Repeat it if the response was too large.

        `size_of` counts the jobs of the response: those that it returns, or those that the request changed.
        """
        while True:
            limited = request if request.limit <= self.most else replace(request, limit=self.most)
            started_at = time.monotonic()
            try:
                response = send(limited)
            except TenureError as exc:
                if not (is_too_large(exc) or is_timeout(exc)):
                    raise
                self.lower(limited.limit // 2)
                if limited.limit == 1 or not is_too_large(exc):
                    raise
            else:
                self.record(size_of(response), started_at)
                return response

    def lower(self, most: int) -> None:
        """Limit the next requests to this size, after a larger one failed."""
        self.most = max(1, min(self.most, most))

    def record(self, size: int, started_at: float) -> None:
        """Record a response of this size to a request sent at `started_at`."""
        if size >= self.most and time.monotonic() - started_at < FAST_FRACTION * self._timeout:
            self.most = min(2 * self.most, LARGEST_BATCH)
