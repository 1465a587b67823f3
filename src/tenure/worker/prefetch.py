"""How many jobs to hold in store for the slots."""

MAX_PREFETCH = 500
"""More makes nothing faster: what is held longer costs more to hold."""
ROUND_TRIPS_AHEAD = 2
"""How many round trips of work are held."""
SAMPLE_WEIGHT, RISING_SAMPLE_WEIGHT = 0.3, 0.8
"""How much the latest trip counts against those before, and how much if it was quicker."""


class Prefetch:
    """Guesses how many jobs will be done while the next ones are fetched; for slow jobs, none.

    The speed is that at which jobs are really done. While too few are held that is limited by the fetching, and the
    guess grows with each trip until the slots have enough.
    """

    def __init__(self) -> None:
        self._rate = 0.0
        self._round_trip = 0.0

    @property
    def size(self) -> int:
        """How many jobs to hold beyond those that run."""
        return min(MAX_PREFETCH, int(self._rate * ROUND_TRIPS_AHEAD * self._round_trip))

    def record(self, *, ended: int, elapsed: float, round_trip: float) -> None:
        """Take in how many jobs were done in the time since the last trip, and how long this one took."""
        rate = ended / max(elapsed, 1e-6)
        self._rate += (RISING_SAMPLE_WEIGHT if rate > self._rate else SAMPLE_WEIGHT) * (rate - self._rate)
        self._round_trip = (
            round_trip if self._round_trip == 0 else self._round_trip + SAMPLE_WEIGHT * (round_trip - self._round_trip)
        )

    def reset(self) -> None:
        """Hold nothing more for now: what was held has waited too long."""
        self._rate = 0.0
