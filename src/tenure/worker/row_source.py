"""The rows of a table as a worker runs them: first it is asked whether their work is done.

A `done_if` in SQL is asked of all rows of a claim at once, right after it, and one that is a function right before the
handler. Either way a row whose work is done is completed without the handler.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tenure.backends.tables.protocol import TableStore
from tenure.client.aio.threads import run_in_new_thread
from tenure.client.claim import Holder
from tenure.client.keeper import Lease, LeaseCallback
from tenure.client.row_claim import ClaimedRow, RowClaim, TableContext
from tenure.client.run import Run
from tenure.client.table import RowTask
from tenure.core.job import Job, Outcome
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import Claimed, ClaimRequest, Settlement
from tenure.errors import ConfigurationError
from tenure.tasks.registry import Block
from tenure.worker.handler import Handler, build_lease
from tenure.worker.store_retry import Request
from tenure.worker.work_source import WorkSource

log = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedWithDone(Claimed):
    """Rows that were taken, and the ids of those whose work is done; None if that could not be told of all of them."""

    done: frozenset[str] | None


class DoneCheckingTable:
    """A table that is asked in the same go which of the rows that it gave are done."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    def claim(self, request: ClaimRequest) -> Claimed:
        return self._check_done(self._store.claim(request))

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return self._store.settle(settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        settled, claimed = self._store.exchange(settlements, request)
        return settled, self._check_done(claimed)

    def _check_done(self, claimed: Claimed) -> Claimed:
        if not claimed.jobs:
            return claimed
        return ClaimedWithDone(
            jobs=claimed.jobs, hint=claimed.hint, done=self._find_done([job.id for job in claimed.jobs])
        )

    def _find_done(self, ids: Sequence[str]) -> frozenset[str] | None:
        try:
            return frozenset(id for id, is_done in zip(ids, self._store.already_done(ids), strict=True) if is_done)
        except ConfigurationError:
            # It fails for one of them. Each is asked for on its own, so that only that one fails.
            return None


class TableRun(RowClaim[R], Run, Generic[R]):
    """The claim of a row that a worker runs: what `tenure.current()` returns."""

    __slots__ = ("checks_done_first", "claimed_row")

    def __init__(self, holder: Holder, job: Job, lease: Lease, rows: TableContext[R]) -> None:
        super().__init__(holder, job, lease)
        self.claimed_row = ClaimedRow(job, rows)
        self.checks_done_first = False

    def rejection(self, now: float) -> Settlement | None:
        """Return how to settle a run that must not begin, as one whose work is done."""
        rejection = super().rejection(now)
        # What is done is completed, though a cancel was asked for.
        if self.claimed_row.found_done and (rejection is None or rejection.outcome is Outcome.CANCELLED):
            log_already_done(self)
            return self.completion()
        return rejection


class RowHandler(Handler):
    """One a table and worker: calls its function with a row."""

    __slots__ = ("_rows",)

    def __init__(
        self, type: str, task: RowTask, rows: TableContext[Any], holder: Holder, arounds: Sequence[Callable[[], Block]]
    ) -> None:
        super().__init__(type, task.function, task.policy, holder, arounds)
        self._rows = rows
        if rows.is_async and not self.is_async:
            raise ConfigurationError(
                f"done_if of table {type!r} is async but its handler is not; make both async, or neither"
            )

    def build_run(
        self, job: Job, request: ClaimRequest, sent_at: float, on_lost_or_cancelled: LeaseCallback | None = None
    ) -> Run:
        """Return the run of a row that was claimed by a request, sent at that moment."""
        run = TableRun(self.holder, job, build_lease(job, request, sent_at, on_lost_or_cancelled), self._rows)
        run.handler = self
        return run

    def _call_function(self, run: Run) -> Any:
        if not isinstance(run, TableRun) or (self._rows.done_if is None and not run.checks_done_first):
            return self._function(run.row)
        if self.is_async:
            return self._await_unless_done(run)
        if run.already_done():
            return log_already_done(run)
        return self._function(run.row)

    async def _await_unless_done(self, run: TableRun[Any]) -> Any:
        if await (run.claimed_row.is_done_async() if self._rows.is_async else run_in_new_thread(run.already_done)):
            return log_already_done(run)
        return await self._function(run.row)


def log_already_done(run: Run) -> None:
    """Say that the handler is not called, once a row."""
    log.info("row %s of %s is already done; skipping the handler", run.id, run.job.type, extra=job_log_fields(run.job))


class TableSource(WorkSource):
    """A table as a source of a worker."""

    def build_runs(
        self, store_request: Request, claim_request: ClaimRequest, claimed: Claimed, on_lost_or_cancelled: LeaseCallback
    ) -> list[Run]:
        """Return the runs of the rows that it gave; those know whether they were found done."""
        runs = super().build_runs(store_request, claim_request, claimed, on_lost_or_cancelled)
        if isinstance(claimed, ClaimedWithDone) and claimed.done != frozenset():
            for run in runs:
                if isinstance(run, TableRun):
                    run.checks_done_first = claimed.done is None
                    run.claimed_row.found_done = claimed.done is not None and run.id in claimed.done
        return runs
