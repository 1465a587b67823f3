"""The rows of a table as a worker runs them: first it is asked whether their work is done.

A `done_if` in SQL is asked of all rows of a claim at once, right after it, and one that is a function right before the
handler. Either way a row whose work is done is completed without the handler.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tenure.backends.tables.protocol import TableStore
from tenure.client.aio.threads import run_alone
from tenure.client.claim import Holder
from tenure.client.keeper import BadNews, Lease
from tenure.client.row_claim import HeldRow, RowClaim, Rows
from tenure.client.run import Run
from tenure.client.table import RowTask
from tenure.core.job import Job, Outcome
from tenure.core.log_fields import facts
from tenure.core.operations import Claimed, ClaimRequest, Settlement
from tenure.errors import ConfigurationError
from tenure.tasks.registry import Block
from tenure.worker.handler import Handler, lease_of
from tenure.worker.store_retry import Question
from tenure.worker.work_source import Supply

log = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Claimed):
    """Rows that were taken, and the ids of those whose work is done; None if that could not be told of all of them."""

    done: frozenset[str] | None


class LookingTable:
    """A table that is asked in the same go which of the rows that it gave are done."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    def claim(self, request: ClaimRequest) -> Claimed:
        return self._looked(self._store.claim(request))

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return self._store.settle(settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        landed, claimed = self._store.exchange(settlements, request)
        return landed, self._looked(claimed)

    def _looked(self, claimed: Claimed) -> Claimed:
        if not claimed.jobs:
            return claimed
        return Looked(jobs=claimed.jobs, hint=claimed.hint, done=self._done_of([job.id for job in claimed.jobs]))

    def _done_of(self, ids: Sequence[str]) -> frozenset[str] | None:
        try:
            return frozenset(id for id, is_done in zip(ids, self._store.already_done(ids), strict=True) if is_done)
        except ConfigurationError:
            # It fails for one of them. Each is asked for on its own, so that only that one fails.
            return None


class TableRun(RowClaim[R], Run, Generic[R]):
    """The claim of a row that a worker runs: what `tenure.current()` returns."""

    __slots__ = ("asks_first", "held")

    def __init__(self, holder: Holder, job: Job, lease: Lease, rows: Rows[R]) -> None:
        super().__init__(holder, job, lease)
        self.held = HeldRow(job, rows)
        self.asks_first = False

    def refusal(self, now: float) -> Settlement | None:
        """Return how to settle a run that must not begin, as one whose work is done."""
        refusal = super().refusal(now)
        # What is done is completed, though a cancel was asked for.
        if self.held.found_done and (refusal is None or refusal.outcome is Outcome.CANCELLED):
            say_that_it_is_done(self)
            return self.completion()
        return refusal


class RowHandler(Handler):
    """One a table and worker: calls its function with a row."""

    __slots__ = ("_rows",)

    def __init__(
        self, type: str, task: RowTask, rows: Rows[Any], holder: Holder, arounds: Sequence[Callable[[], Block]]
    ) -> None:
        super().__init__(type, task.function, task.policy, holder, arounds)
        self._rows = rows
        if rows.is_async and not self.is_async:
            raise ConfigurationError(
                f"done_if of the table {type!r} is async, and its handler is not; make both async, or neither"
            )

    def run_of(self, job: Job, request: ClaimRequest, sent_at: float, on_bad_news: BadNews | None = None) -> Run:
        """Return the run of a row that was claimed by a request, sent at that moment."""
        run = TableRun(self.holder, job, lease_of(job, request, sent_at, on_bad_news), self._rows)
        run.handler = self
        return run

    def _called(self, run: Run) -> Any:
        if not isinstance(run, TableRun) or (self._rows.done_if is None and not run.asks_first):
            return self._function(run.row)
        if self.is_async:
            return self._call_unless_done(run)
        if run.already_done():
            return say_that_it_is_done(run)
        return self._function(run.row)

    async def _call_unless_done(self, run: TableRun[Any]) -> Any:
        if await (run.held.is_done_awaited() if self._rows.is_async else run_alone(run.already_done)):
            return say_that_it_is_done(run)
        return await self._function(run.row)


def say_that_it_is_done(run: Run) -> None:
    """Say that the handler is not called, once a row."""
    log.info("the work of row %s of %s is done already", run.id, run.job.type, extra=facts(run.job))


class TableSupply(Supply):
    """A table as a source of a worker."""

    def runs_of(self, question: Question, request: ClaimRequest, claimed: Claimed, on_bad_news: BadNews) -> list[Run]:
        """Return the runs of the rows that it gave; those know whether they were found done."""
        runs = super().runs_of(question, request, claimed, on_bad_news)
        if isinstance(claimed, Looked) and claimed.done != frozenset():
            for run in runs:
                if isinstance(run, TableRun):
                    run.asks_first = claimed.done is None
                    run.held.found_done = claimed.done is not None and run.id in claimed.done
        return runs
