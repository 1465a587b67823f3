"""The settings of all workers of a run."""

import tenure

WORKERS = 2
CONCURRENCY = 32
LEASE = 5.0
"""Seconds; the workers extend it."""
ABANDONED_LEASE = 1.0
"""Seconds of the leases of the dead worker."""
BEFORE_START = 0.7
"""Seconds from the claims of the dead worker to the start of the workers: the leases expire while they run."""
MAX_ATTEMPTS = 3
BACKOFF = tenure.Backoff(first=0.2, factor=1.0)
SLOW = 1.5 * LEASE
"""Seconds of a run that needs its lease extended."""
DEAD = "dead"
"""The name of the worker that claims and never settles."""
