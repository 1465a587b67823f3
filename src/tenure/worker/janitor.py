"""Purge finished jobs that are older than their retention."""

import random

from tenure.backends.protocol import Backend
from tenure.client.retention import Retention
from tenure.core.operations import LARGEST_BATCH, Purge

PURGE_INTERVAL = 60.0
"""Seconds between two purges, with jitter, so that workers started together do not purge together."""
MAX_BATCHES = 10
"""Largest number of batches deleted per state in one purge. If more is left, the next purge comes sooner."""


class Janitor:
    def __init__(self, store: Backend, retention: Retention) -> None:
        self._store = store
        self._retention = retention

    def purge(self) -> float:
        """Delete a bounded number of jobs; return the seconds until the next purge."""
        is_more_left = False
        for state, seconds in self._retention.by_state():
            purge = Purge(older_than=seconds, states=frozenset({state}))
            is_more_left |= all(self._store.purge(purge) == LARGEST_BATCH for _ in range(MAX_BATCHES))
        return random.uniform(0.5, 1.5) * (1.0 if is_more_left else PURGE_INTERVAL)
