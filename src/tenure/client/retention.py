"""Retention: when workers delete finished jobs."""

from collections.abc import Iterator
from dataclasses import dataclass

from tenure.core import checks
from tenure.core.checks import Seconds
from tenure.core.job import State

DAY = 86_400.0


@checks.reject_unknown_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long finished jobs of each state are kept, in seconds, before a worker deletes them; None keeps them forever.

    The defaults: completed 1 day, cancelled 7 days, failed 30 days.
    """

    completed: Seconds | None = DAY
    cancelled: Seconds | None = 7 * DAY
    failed: Seconds | None = 30 * DAY

    def __post_init__(self) -> None:
        for name in ("completed", "cancelled", "failed"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else checks.seconds(f"retention {name}", value))

    def by_state(self) -> Iterator[tuple[State, float]]:
        """Yield each state whose jobs are deleted, and after how many seconds."""
        for state in (State.COMPLETED, State.CANCELLED, State.FAILED):
            seconds = getattr(self, state.value)
            if seconds is not None:
                yield state, seconds
