"""What the conformance suite has to be told about a store."""

from abc import ABC, abstractmethod
from typing import cast
from uuid import uuid4

from tenure.backends.protocol import Backend, Claiming, StoreClock
from tenure.core.job import NewJob


class ClaimingHarness(ABC):
    """One store, empty at first, that jobs can be claimed from."""

    rounds: int = 60
    """How often requests race for the same job. With fewer, a race that is seldom lost may go unnoticed."""

    @abstractmethod
    def open(self, clock: StoreClock | None = None) -> Claiming:
        """Return the store, or another handle on it; all of them see the same jobs.

        Within one test every call gives the same clock; None is the store's own.
        """

    @abstractmethod
    def given_jobs(self, number: int, clock: StoreClock | None = None) -> list[str]:
        """Put so many new jobs in it and return their ids in enqueue order.

        They are due now, of one queue and type, and alike but for their ids; with 5 attempts and 3 crashes.
        """

    def given_jobs_by(self, store: Claiming, number: int, clock: StoreClock | None = None) -> list[str]:  # noqa: ARG002
        """Do the same through a handle that is open. Override it if jobs can be made so: opening another costs time."""
        return self.given_jobs(number, clock)

    @abstractmethod
    def clear(self) -> None:
        """Begin with an empty store again; the handles opened before are not used any more."""


class Harness(ClaimingHarness):
    """One store, empty at first, that jobs can be enqueued in."""

    random_examples: int = 60
    """How many sequences of random operations the store is compared with the reference over."""

    @abstractmethod
    def open(self, clock: StoreClock | None = None) -> Backend: ...

    def given_jobs(self, number: int, clock: StoreClock | None = None) -> list[str]:
        return self.given_jobs_by(self.open(clock), number, clock)

    def given_jobs_by(self, store: Claiming, number: int, clock: StoreClock | None = None) -> list[str]:  # noqa: ARG002
        records = [NewJob("work", {"n": n}).record(str(uuid4())) for n in range(number)]
        return [each.id for each in cast("Backend", store).enqueue(records)]
