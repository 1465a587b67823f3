"""What a worker did."""

from dataclasses import dataclass, fields

from tenure.core.job import Outcome


@dataclass(slots=True)
class Summary:
    """How many runs of a worker ended in which way. `lost` were taken over by others: what they did is not recorded."""

    completed: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    released: int = 0
    cancelled: int = 0
    lost: int = 0
    prevented: int = 0
    """Of the completed, rows of tables whose work was done already, so that it was not done again."""
    unrecorded: int = 0
    """Ended while the store did not answer, until the worker had to go. Their leases run out, and they run again."""

    def __str__(self) -> str:
        counts = ((each.name, getattr(self, each.name)) for each in fields(self))
        return ", ".join(f"{number:,} {name}" for name, number in counts if number) or "nothing to do"

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def counts(self) -> dict[str, int]:
        """Return the numbers by their names."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def total(self) -> int:
        """How many ended, in whatever way."""
        return sum(self.counts().values()) - self.prevented

    def record(self, outcome: Outcome, number: int = 1) -> None:
        """Count endings that landed."""
        setattr(self, outcome.value, getattr(self, outcome.value) + number)
