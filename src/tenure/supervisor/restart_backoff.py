"""How long to wait before a child that died is started again."""

import random
from collections.abc import Callable

STABLE_AFTER = 10.0
"""Seconds after which a child has run well."""
MIN_DELAY, MAX_DELAY = 0.5, 30.0


class RestartBackoff:
    """None for a child that had run well. Otherwise twice as long each time, and unevenly."""

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._uniform = uniform
        self._delay = MIN_DELAY

    def delay_after(self, ran_for: float) -> float:
        """Return how many seconds to wait after a child that had run for so long."""
        if ran_for > STABLE_AFTER:
            self._delay = MIN_DELAY
            return 0.0
        delay, self._delay = self._delay, min(MAX_DELAY, 2 * self._delay)
        return delay * self._uniform(0.75, 1.0)
