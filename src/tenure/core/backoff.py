"""The delay before a failed job is retried."""

from collections.abc import Callable
from dataclasses import dataclass

from tenure.core import checks

Random = Callable[[], float]
"""Returns a number from 0 up to, not including, 1."""


@checks.reject_unknown_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential back-off with full jitter: a random delay up to `first * factor ** (attempts - 1)`, at most `cap`."""

    first: float = 5.0
    factor: float = 2.0
    cap: float = 3600.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", checks.seconds("first", self.first))
        object.__setattr__(self, "cap", checks.seconds("cap", self.cap))
        checks.number("factor", self.factor, 1, 100)

    def delay(self, attempts: int, random: Random) -> float:
        """Return the delay in seconds after this number of attempts."""
        try:
            longest = self.first * self.factor ** (attempts - 1)
        except OverflowError:
            longest = self.cap
        return random() * min(self.cap, longest)
