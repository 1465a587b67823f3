"""How many jobs to hold in store for the slots."""

MOST_AHEAD = 500
"""More makes nothing faster: what is held longer costs more to hold."""
TRIPS = 2
"""How many round trips of work are held."""
WEIGHT, RISING = 0.3, 0.8
"""How much the latest trip counts against those before, and how much if it was quicker."""


class Pace:
    """Guesses how many jobs will be done while the next ones are fetched; for slow jobs, none.

    The speed is that at which jobs are really done. While too few are held that is limited by the fetching, and the
    guess grows with each trip until the slots have enough.
    """

    def __init__(self) -> None:
        self._rate = 0.0
        self._trip = 0.0

    @property
    def ahead(self) -> int:
        """How many jobs to hold beyond those that run."""
        return min(MOST_AHEAD, int(self._rate * TRIPS * self._trip))

    def note(self, *, done: int, within: float, trip: float) -> None:
        """Take in how many jobs were done in the time since the last trip, and how long this one took."""
        rate = done / max(within, 1e-6)
        self._rate += (RISING if rate > self._rate else WEIGHT) * (rate - self._rate)
        self._trip = trip if self._trip == 0 else self._trip + WEIGHT * (trip - self._trip)

    def slow_down(self) -> None:
        """Hold nothing more for now: what was held has waited too long."""
        self._rate = 0.0
