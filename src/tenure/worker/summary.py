"""Count how the runs of a worker ended."""

from dataclasses import dataclass, fields

from tenure.core.job import Outcome


@dataclass(slots=True)
class Summary:
    """Numbers of runs by outcome. A `lost` run was taken over by another worker; its outcome is not recorded."""

    completed: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    released: int = 0
    cancelled: int = 0
    lost: int = 0
    prevented: int = 0
    """Completed rows of tables whose work was already done, so that the handler was not called."""
    unrecorded: int = 0
    """Runs that the worker could not settle before it exited. They run again after their leases expire."""

    def __str__(self) -> str:
        counts = ((each.name, getattr(self, each.name)) for each in fields(self))
        return ", ".join(f"{number:,} {name}" for name, number in counts if number) or "nothing to do"

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def counts(self) -> dict[str, int]:
        """Return the numbers by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def total(self) -> int:
        """The number of ended runs."""
        return sum(self.counts().values()) - self.prevented

    def record(self, outcome: Outcome, number: int = 1) -> None:
        """Add ended runs with one outcome."""
        setattr(self, outcome.value, getattr(self, outcome.value) + number)
