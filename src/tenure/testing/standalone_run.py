"""A run without a worker, for tests that call a task which uses `tenure.current()`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Unpack

from tenure.backends.memory import Memory
from tenure.client.claim import Claim
from tenure.client.jobs import Jobs
from tenure.client.run import CURRENT_RUN, Run
from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.job import GREATEST_ATTEMPTS, Job
from tenure.core.operations import LONGEST_LEASE, Move, Query
from tenure.errors import ClaimLost
from tenure.tasks.task import Options
from tenure.testing.clock import Clock
from tenure.testing.holder import holder_of


class HeldRun(Run):
    """A `Run` outside a worker, with methods to cancel it or lose its claim."""

    __slots__ = ()

    # There is no handler, so no policy of a task applies.
    settlement_for_error = Claim.settlement_for_error

    @property
    def stored(self) -> Job:
        """The job as it is in the store now, with its progress and outcome."""
        (job,) = self._holder.store.find(Query(ids=(self.id,))).jobs
        return job

    def request_cancel(self) -> None:
        """Request a cancel, as an operator does. `cancel_requested` is true at once."""
        self._holder.store.move([self.id], Move.CANCEL)
        self.extend()

    def lose(self) -> None:
        """Reap the claim, as if its lease had expired. Every later settlement raises `ClaimLost`."""
        self._holder.store.reap(worker=self.job.worker)
        with suppress(ClaimLost):
            self.extend()


@contextmanager
def claim(
    type: str = "test", payload: Mapping[str, Any] | None = None, *, attempt: int = 1, **options: Unpack[Options]
) -> Iterator[HeldRun]:
    """Hold a job in a private in-memory store; inside the block `tenure.current()` returns its run.

    The options are those of `Jobs.enqueue`; `attempt` is the number of the attempt. The exit settles nothing.
    """
    clock = Clock(datetime.now(UTC))
    store = Memory(clock=clock)
    holder = holder_of(store, Backoff())
    with Jobs(store) as jobs:
        jobs.enqueue(type, payload, **options)
        (job,) = jobs.find()
        clock.now = max(clock.now, job.run_at)
        for _ in range(1, checks.integer("attempt", attempt, 1, job.max_attempts or GREATEST_ATTEMPTS)):
            jobs.claim()[0].retry(delay=0)
        (held,) = jobs.claim(lease=LONGEST_LEASE)
        run = HeldRun(holder, held.job, held.lease)
        before = CURRENT_RUN.set(run)
        try:
            yield run
        finally:
            CURRENT_RUN.reset(before)
            holder.keeper.stop()
