"""Back off before a child that died is restarted."""

import random
from collections.abc import Callable

STABLE_AFTER = 10.0
"""Seconds after which a child counts as stable."""
MIN_DELAY, MAX_DELAY = 0.5, 30.0


class RestartBackoff:
    """No delay for a child that was stable. Otherwise doubled each time, with jitter."""

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._uniform = uniform
        self._delay = MIN_DELAY

    def delay_after(self, ran_for: float) -> float:
        """Return how many seconds to wait after a child that ran for `ran_for` seconds."""
        if ran_for > STABLE_AFTER:
            self._delay = MIN_DELAY
            return 0.0
        delay, self._delay = self._delay, min(MAX_DELAY, 2 * self._delay)
        return delay * self._uniform(0.75, 1.0)
