"""Decide how many jobs to prefetch."""

MAX_PREFETCH = 500
"""A larger buffer is not faster: leases held longer cost more extensions."""
ROUND_TRIPS_AHEAD = 2
"""Number of round trips that the buffer should bridge."""
SAMPLE_WEIGHT, RISING_SAMPLE_WEIGHT = 0.3, 0.8
"""Weight of the latest sample in the moving averages, and its weight if the rate has risen."""


class Prefetch:
    """Estimate how many jobs will end while the worker fetches the next ones.

    The rate is measured at the ended jobs. While too few jobs are buffered, fetching limits the rate, so the estimate
    grows with each round trip until the slots have enough.
    """

    def __init__(self) -> None:
        self._rate = 0.0
        self._round_trip = 0.0

    @property
    def size(self) -> int:
        """How many jobs to buffer beyond the running ones."""
        return min(MAX_PREFETCH, int(self._rate * ROUND_TRIPS_AHEAD * self._round_trip))

    def record(self, *, ended: int, elapsed: float, round_trip: float) -> None:
        """Record the number of jobs ended since the last round trip, the time since then, and the time of this one."""
        rate = ended / max(elapsed, 1e-6)
        self._rate += (RISING_SAMPLE_WEIGHT if rate > self._rate else SAMPLE_WEIGHT) * (rate - self._rate)
        self._round_trip = (
            round_trip if self._round_trip == 0 else self._round_trip + SAMPLE_WEIGHT * (round_trip - self._round_trip)
        )

    def reset(self) -> None:
        """Prefetch nothing for now: buffered jobs have waited too long."""
        self._rate = 0.0
