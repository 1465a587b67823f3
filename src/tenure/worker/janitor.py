"""Forgets finished jobs that are old enough."""

import random

from tenure.backends.protocol import Backend
from tenure.client.retention import Retention
from tenure.core.operations import LARGEST_BATCH, Purge

PURGE_INTERVAL = 60.0
"""Seconds between two visits, more or less: workers that were started together shall not come together."""
MAX_BATCHES = 10
"""How many batches one visit forgets at most of each state; then the next comes sooner."""


class Janitor:
    def __init__(self, store: Backend, retention: Retention) -> None:
        self._store = store
        self._retention = retention

    def purge(self) -> float:
        """Forget a bounded number of jobs; return when to come again."""
        is_more_left = False
        for state, seconds in self._retention.by_state():
            purge = Purge(older_than=seconds, states=frozenset({state}))
            is_more_left |= all(self._store.purge(purge) == LARGEST_BATCH for _ in range(MAX_BATCHES))
        return random.uniform(0.5, 1.5) * (1.0 if is_more_left else PURGE_INTERVAL)
