"""How long to wait before a child that died is started again."""

import random
from collections.abc import Callable

WELL = 10.0
"""Seconds after which a child has run well."""
SHORTEST, LONGEST = 0.5, 30.0


class Pauses:
    """None for a child that had run well. Otherwise twice as long each time, and unevenly."""

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._uniform = uniform
        self._pause = SHORTEST

    def after(self, ran_for: float) -> float:
        """Return how many seconds to wait after a child that had run for so long."""
        if ran_for > WELL:
            self._pause = SHORTEST
            return 0.0
        pause, self._pause = self._pause, min(LONGEST, 2 * self._pause)
        return pause * self._uniform(0.75, 1.0)
