"""The adapter between the conformance suite and a store."""

from abc import ABC, abstractmethod
from typing import cast
from uuid import uuid4

from tenure.backends.protocol import Backend, Claiming, StoreClock
from tenure.core.job import NewJob


class ClaimingHarness(ABC):
    """One store, initially empty, from which jobs can be claimed."""

    rounds: int = 60
    """How often requests race for one job. Fewer rounds may miss a rare race."""

    @abstractmethod
    def open(self, clock: StoreClock | None = None) -> Claiming:
        """Return a handle on the store; all handles see the same jobs.

        All calls within a test pass the same clock; None is the store's own clock.
        """

    @abstractmethod
    def given_jobs(self, number: int, clock: StoreClock | None = None) -> list[str]:
        """Store `number` new jobs and return their ids in enqueue order.

        The jobs are due now, have the same queue and type, and differ only in their ids; 5 attempts, 3 crashes.
        """

    def given_jobs_by(self, store: Claiming, number: int, clock: StoreClock | None = None) -> list[str]:  # noqa: ARG002
        """Store jobs through an open handle. Override this if the handle can store jobs: it is faster than opening."""
        return self.given_jobs(number, clock)

    @abstractmethod
    def clear(self) -> None:
        """Empty the store. Handles opened before are not used again."""


class Harness(ClaimingHarness):
    """One store, initially empty, in which jobs can be enqueued."""

    random_examples: int = 60
    """How many random sequences of operations are compared with the reference store."""

    @abstractmethod
    def open(self, clock: StoreClock | None = None) -> Backend: ...

    def given_jobs(self, number: int, clock: StoreClock | None = None) -> list[str]:
        return self.given_jobs_by(self.open(clock), number, clock)

    def given_jobs_by(self, store: Claiming, number: int, clock: StoreClock | None = None) -> list[str]:  # noqa: ARG002
        records = [NewJob("work", {"n": n}).record(str(uuid4())) for n in range(number)]
        return [each.id for each in cast("Backend", store).enqueue(records)]
