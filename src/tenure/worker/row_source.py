"""Run the rows of a table, after checking whether their work is already done.

A `done_if` in SQL is checked for all rows of a claim together, right after the claim. A `done_if` function is called
right before the handler. In both cases a row whose work is done is completed without calling the handler.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, TypeVar

from tenure.backends.shared.isolation import StatementRejected
from tenure.backends.tables.protocol import TableStore
from tenure.client.aio.threads import run_in_new_thread
from tenure.client.claim import Holder
from tenure.client.keeper import Lease, LeaseCallback
from tenure.client.row_claim import ClaimedRow, RowClaim, TableContext
from tenure.client.run import Run
from tenure.client.table import RowTask
from tenure.core.answers import Snooze
from tenure.core.job import Job, Outcome
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import Claimed, ClaimRequest, Settled, Settlement
from tenure.errors import ConfigurationError
from tenure.tasks.registry import Block
from tenure.worker.handler import Handler, build_lease
from tenure.worker.store_retry import RejectionLog, Request
from tenure.worker.work_source import WorkSource

log = logging.getLogger(__name__)

INVALID_DELAY, MAX_INVALID_DELAY = 1.0, 60.0
"""Seconds for which a row is snoozed while `done_if` is invalid; doubled each time."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedWithDone(Claimed):
    """The claimed rows, and the ids of the rows that are done; None if the check failed for some row."""

    done: frozenset[str] | None


class DoneCheckingTable:
    """A table store that checks after each claim which of the rows are already done."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    def claim(self, request: ClaimRequest) -> Claimed:
        return self._check_done(self._store.claim(request))

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self._store.settle(settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[Sequence[Settled], Claimed]:
        settled, claimed = self._store.exchange(settlements, request)
        return settled, self._check_done(claimed)

    def _check_done(self, claimed: Claimed) -> Claimed:
        if not claimed.jobs:
            return claimed
        return ClaimedWithDone(
            jobs=claimed.jobs,
            hint=claimed.hint,
            is_cut=claimed.is_cut,
            done=self._find_done([job.id for job in claimed.jobs]),
        )

    def _find_done(self, ids: Sequence[str]) -> frozenset[str] | None:
        try:
            return frozenset(id for id, is_done in zip(ids, self._store.already_done(ids), strict=True) if is_done)
        except ConfigurationError:
            # The check raises for some row. None makes the worker check row by row, so that only the bad row fails.
            return None


class TableRun(RowClaim[R], Run, Generic[R]):
    """The claim of a row run by a worker: the return value of `tenure.current()`."""

    __slots__ = ("checks_done_first", "claimed_row")

    def __init__(self, holder: Holder, job: Job, lease: Lease, rows: TableContext[R]) -> None:
        super().__init__(holder, job, lease)
        self.claimed_row = ClaimedRow(job, rows)
        self.checks_done_first = False

    def rejection(self, now: float) -> Settlement | None:
        """Return the settlement of a run that must not start, for example because its work is done."""
        rejection = super().rejection(now)
        # A row whose work is done is completed, even if a cancel was requested.
        if self.claimed_row.found_done and (rejection is None or rejection.outcome is Outcome.CANCELLED):
            log_already_done(self)
            return self.completion()
        return rejection


class RowHandler(Handler):
    """Call the handler of a table with a row."""

    __slots__ = ("_rejection_log", "_rows")

    def __init__(
        self, type: str, task: RowTask, rows: TableContext[Any], holder: Holder, arounds: Sequence[Callable[[], Block]]
    ) -> None:
        super().__init__(type, task.function, task.policy, holder, arounds)
        self._rows = rows
        self._rejection_log = RejectionLog()
        if rows.is_async and not self.is_async:
            raise ConfigurationError(
                f"done_if of table {type!r} is async but its handler is not; make both async, or neither"
            )

    def build_run(
        self, job: Job, request: ClaimRequest, sent_at: float, on_lost_or_cancelled: LeaseCallback | None = None
    ) -> Run:
        """Return the run of a row claimed by a request that was sent at `sent_at`."""
        run = TableRun(self.holder, job, build_lease(job, request, sent_at, on_lost_or_cancelled), self._rows)
        run.handler = self
        return run

    def _call_function(self, run: Run) -> Any:
        if not isinstance(run, TableRun) or (self._rows.done_if is None and not run.checks_done_first):
            return self._function(run.row)
        if self.is_async:
            return self._await_unless_done(run)
        if self._is_done(run):
            return log_already_done(run)
        return self._function(run.row)

    async def _await_unless_done(self, run: TableRun[Any]) -> Any:
        row = run.claimed_row
        if await (row.is_done_async() if self._rows.is_async else run_in_new_thread(lambda: self._is_done(run))):
            return log_already_done(run)
        return await self._function(run.row)

    def _is_done(self, run: TableRun[Any]) -> bool:
        try:
            return run.already_done()
        except StatementRejected as exc:
            if not exc.is_invalid:
                raise
            # Probably invalid for every row: this must cost no row an attempt.
            raise self._snooze(run, exc) from exc

    def _snooze(self, run: TableRun[Any], invalid: StatementRejected) -> Snooze:
        if self._rejection_log.includes(invalid.reason):
            log.error("rows of %s snoozed: done_if is invalid: %s", self.type, invalid, extra=job_log_fields(run.job))
        snoozes = takewhile(lambda ending: ending.outcome is Outcome.SNOOZED, reversed(run.job.history))
        return Snooze(min(INVALID_DELAY * 2 ** len(list(snoozes)), MAX_INVALID_DELAY))


def log_already_done(run: Run) -> None:
    """Log that the worker skips the handler."""
    log.info("row %s of %s is already done; skipping the handler", run.id, run.job.type, extra=job_log_fields(run.job))


class TableSource(WorkSource):
    """A table as a work source."""

    def build_runs(
        self, store_request: Request, claim_request: ClaimRequest, claimed: Claimed, on_lost_or_cancelled: LeaseCallback
    ) -> list[Run]:
        """Return the runs of the claimed rows, marked with the result of the `done_if` check."""
        runs = super().build_runs(store_request, claim_request, claimed, on_lost_or_cancelled)
        if isinstance(claimed, ClaimedWithDone) and claimed.done != frozenset():
            for run in runs:
                if isinstance(run, TableRun):
                    run.checks_done_first = claimed.done is None
                    run.claimed_row.found_done = claimed.done is not None and run.id in claimed.done
        return runs
