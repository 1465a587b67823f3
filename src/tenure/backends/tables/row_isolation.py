"""Run the operations of a table in batches, and fall back to smaller batches if one fails.

The user's constraints and triggers may reject a write to a single row, or need a lock that another transaction holds. A
failed batch is split until only the failed rows are left, so that the other rows get their result in the same call:

- A row whose settlement or reaping is rejected fails with the message of the table. If the table rejects this too, the
  row stays running, and tenure avoids it for a while.
- A row that cannot be claimed stays queued, and tenure avoids it for a while.
- A row that needs a lock of another transaction is busy, or avoided for a while.
- A row that takes too long is tried last and alone, with more time. Then it is treated like a row that is rejected for
  now.
"""

import logging
import math
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from tenure.backends.protocol import SWEEP
from tenure.backends.shared.isolation import (
    StatementBlocked,
    StatementFailed,
    StatementRejected,
    StatementTimedOut,
    claim_after_settling,
    isolate,
    settle_isolated,
)
from tenure.backends.tables.avoided_rows import LONGEST_DELAY, AvoidedRows
from tenure.backends.tables.row_batches import NO_EFFECT, ReapedRows, Reaping, RowBatches, Taken
from tenure.core.job import Job
from tenure.core.operations import (
    Claimed,
    ClaimRequest,
    Extension,
    Hold,
    HoldStatus,
    Reaped,
    Settled,
    Settlement,
    Unsettled,
)

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

MOST_CLAIM_ROUNDS = 10
"""How often a claim looks for further rows, if it did not get all the rows that it had found."""

CLAIM_TIME = 0.5
"""Seconds after which a claim stops trying rows. The jobs that it has claimed can start only when it returns."""

EXTENSION_FRACTION = 1 / 4
"""Fraction of the shortest lease after which an extension tries no further leases: the keeper retries them soon."""


class RowIsolation(Generic[K]):
    """The operations of a table. A row that cannot be changed delays only itself."""

    def __init__(self, batches: RowBatches[K], table: str) -> None:
        self._batches = batches
        self._avoided: AvoidedRows[K] = AvoidedRows(table)
        # Only for its log lines: extensions are not avoided.
        self._unextended: AvoidedRows[Hold] = AvoidedRows(table)

    def avoided_keys(self) -> list[K]:
        """Return the keys of the rows to avoid now: neither claims nor waits see them."""
        return self._avoided.keys()

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return settle_isolated(
            settlements,
            self._batches.settle,
            self._batches.patient.settle,
            limit=lambda: self._batches.settle_limit,
        )

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return isolate(
            extensions,
            self._extend,
            self._reject_extension,
            limit=lambda: self._batches.extend_limit,
            postpone=lambda part: [HoldStatus.BUSY] * len(part),
            longest=min((each.lease for each in extensions), default=0.0) * EXTENSION_FRACTION,
        )

    def _extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        statuses = self._batches.extend(extensions)
        results = zip(extensions, statuses, strict=True)
        skipped = {each.hold: each.hold.id for each, status in results if status is HoldStatus.REJECTED}
        self._unextended.avoid(skipped, "extended", NO_EFFECT)
        return statuses

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[Settled], Claimed]:
        if len(settlements) > self._batches.settle_limit:
            return self._settle_and_claim(settlements, request)
        ends_at = time.monotonic() + CLAIM_TIME
        try:
            settled, taken = self._batches.exchange(settlements, request, self._avoided.keys())
        except StatementFailed:
            return self._settle_and_claim(settlements, request)
        settled = [
            self.settle([settlement])[0] if isinstance(each, Unsettled) and each.rejection else each
            for settlement, each in zip(settlements, settled, strict=True)
        ]
        self._avoid_unreaped(taken.unreaped)
        if taken.missed and not taken.was_held:
            return settled, self._take_rounds(request, taken, ends_at)
        self._avoided.forget(job.id for job in taken.jobs)
        return settled, Claimed(jobs=taken.jobs)

    def _settle_and_claim(
        self, settlements: Sequence[Settlement], request: ClaimRequest
    ) -> tuple[list[Settled], Claimed]:
        return claim_after_settling(self.settle(settlements), lambda: self._claim(request))

    def _claim(self, request: ClaimRequest) -> Claimed:
        ends_at = time.monotonic() + CLAIM_TIME
        taken = self._batches.take(request, [], 0)
        if taken.was_held:
            return Claimed(jobs=taken.jobs)
        self._reap_batch(Reaping(), self._batches.reap_limit, longest=CLAIM_TIME)
        return self._take_rounds(request, taken, ends_at)

    def reap(self, reaping: Reaping, limit: int) -> list[Reaped]:
        reaped: list[Reaped] = []
        tried = 0
        while len(reaped) < limit and tried < SWEEP:
            size = min(limit - len(reaped), self._batches.reap_limit)
            batch, count = self._reap_batch(reaping, size)
            reaped += batch
            tried += count
            if count < size:
                break
        return reaped

    def _reap_batch(self, reaping: Reaping, limit: int, longest: float = math.inf) -> tuple[list[Reaped], int]:
        """Reap a batch, for `longest` seconds if rows have to be tried alone. Return also the number of rows tried."""
        avoided = self._avoided.keys()
        try:
            rows = self._batches.reap(reaping, limit, avoided)
            return self._without_missed(rows), len(rows.reaped) + len(rows.missed)
        except StatementFailed as exc:
            if isinstance(exc, StatementBlocked):
                # Without rows, the statement is blocked only if the whole table is locked: no row is to blame then.
                self._batches.reap_rows(reaping, [])
        rejections: dict[K, StatementFailed] = {}
        keys = self._batches.keys_to_reap(reaping, limit, avoided)
        reaped = isolate(
            keys,
            lambda part: self._without_missed(self._batches.reap_rows(reaping, part)),
            lambda key, failed: self._reap_rejected(reaping, key, failed, rejections),
            limit=lambda: self._batches.reap_limit,
            postpone=lambda _: [],
            longest=longest,
        )
        self._avoid(rejections, "reaped")
        return reaped, len(keys)

    def _without_missed(self, rows: ReapedRows[K]) -> list[Reaped]:
        self._avoid_unreaped(rows.missed)
        return rows.reaped

    def _avoid_unreaped(self, keys: Sequence[K]) -> None:
        self._avoided.avoid(self._ids_by_key(keys), "reaped", NO_EFFECT)

    def _ids_by_key(self, keys: Iterable[K]) -> dict[K, str]:
        return {key: self._batches.id_of(key) for key in keys}

    def _take_rounds(self, request: ClaimRequest, taken: Taken[K], ends_at: float) -> Claimed:
        """Claim further rows, until the limit or the end is reached, or no more rows are due."""
        jobs, missed = taken.jobs, set(taken.missed)
        rejections: list[StatementFailed] = []
        is_cut = True
        for _ in range(MOST_CLAIM_ROUNDS):
            keys = self._batches.due_keys(request.limit - len(jobs), self._avoided.keys())
            if not keys:
                is_cut = False
                break
            round_ = _Round(self._batches, request, jobs, ends_at)
            missed_now = set(isolate(keys, round_.take, round_.reject, limit=lambda: self._batches.claim_limit))
            jobs = round_.sorted_jobs(self._ids_by_key(keys).values())
            rejections += round_.rejected.values()
            self._avoid(round_.rejected, "claimed")
            if round_.is_cut:
                break
            if round_.was_held or len(jobs) >= request.limit:
                is_cut = False
                break
            # Another transaction may have claimed a missed row. A row that is due and missed again is not claimable.
            # Its sidecar row may only be locked, so the level is WARNING.
            again = self._ids_by_key(missed & missed_now)
            self._avoided.avoid(again, "claimed", NO_EFFECT, level=logging.WARNING)
            missed = missed_now
        self._avoided.forget(job.id for job in jobs)
        if rejections and not jobs and all(each.is_invalid for each in rejections):
            # Probably the statement is invalid for every row, for example because a trigger uses a missing table.
            raise rejections[0]
        return Claimed(jobs=jobs, is_cut=is_cut)

    def _avoid(self, failures: Mapping[K, StatementFailed], action: str) -> None:
        """Avoid rows, and log them by reason."""
        keys_by_reason: dict[tuple[type[StatementFailed], str], list[K]] = {}
        for key, failed in failures.items():
            keys_by_reason.setdefault((type(failed), _reason(failed)), []).append(key)
        for (kind, reason), keys in keys_by_reason.items():
            level = logging.WARNING if kind is StatementBlocked else logging.ERROR
            # Each try costs the other rows the time of the try.
            delay = LONGEST_DELAY if kind is StatementTimedOut else None
            self._avoided.avoid(self._ids_by_key(keys), action, reason, level=level, delay=delay)

    def _reject_extension(self, extension: Extension, failed: StatementFailed) -> list[HoldStatus]:
        if isinstance(failed, StatementTimedOut):
            try:
                return self._batches.patient.extend([extension])
            except StatementFailed as exc:
                failed = exc
        if isinstance(failed, StatementBlocked):
            return [HoldStatus.BUSY]
        self._unextended.avoid({extension.hold: extension.hold.id}, "extended", _reason(failed))
        return [HoldStatus.REJECTED]

    def _reap_rejected(
        self, reaping: Reaping, key: K, rejected: StatementFailed, rejections: dict[K, StatementFailed]
    ) -> list[Reaped]:
        """Fail a row whose usual end the table rejects; if the table rejects this too, leave the row running."""
        if isinstance(rejected, StatementTimedOut):
            try:
                return self._without_missed(self._batches.patient.reap_rows(reaping, [key]))
            except StatementFailed as exc:
                rejected = exc
        # A lock may be released soon, and an invalid `done_if` must not fail all expired rows.
        if isinstance(rejected, StatementRejected) and not rejected.is_invalid:
            try:
                reaped = self._without_missed(self._batches.reap_rows(reaping, [key], rejection=rejected.reason))
            except StatementFailed as exc:
                rejected = exc
            else:
                if reaped:
                    log.error(
                        "row %s failed: its table rejected the end of the claim: %s", reaped[0].id, rejected.reason
                    )
                return reaped
        rejections[key] = rejected
        return []


class _Round(Generic[K]):
    """The rows that a claim has taken so far, in several batches with the same token.

    `is_cut`: the end was reached before all rows were tried.
    """

    def __init__(self, batches: RowBatches[K], request: ClaimRequest, jobs: list[Job], ends_at: float) -> None:
        self._batches = batches
        self._request = request
        self._ends_at = ends_at
        self.jobs = list(jobs)
        self.was_held = False
        self.is_cut = False
        self.rejected: dict[K, StatementFailed] = {}

    def take(self, keys: Sequence[K]) -> list[K]:
        """Claim rows by key; return the keys that were not claimed."""
        # Try at least one batch, even if the time is over: otherwise no later claim would get further either.
        has_tried = bool(self.jobs or self.rejected)
        self.is_cut = self.is_cut or (has_tried and time.monotonic() >= self._ends_at)
        if self.was_held or self.is_cut:
            return []
        return self._take(self._batches, keys)

    def _take(self, batches: RowBatches[K], keys: Sequence[K]) -> list[K]:
        taken = batches.take(self._request, keys, len(self.jobs))
        if taken.was_held:
            self.was_held, self.jobs = True, taken.jobs
            return []
        self.jobs += taken.jobs
        return list(taken.missed)

    def reject(self, key: K, failed: StatementFailed) -> list[K]:
        """Record that a row cannot be claimed. A slow row gets more time only if no other job would wait for it."""
        if isinstance(failed, StatementTimedOut) and not self.jobs:
            try:
                return self._take(self._batches.patient, [key])
            except StatementFailed as exc:
                failed = exc
        self.rejected[key] = failed
        return []

    def sorted_jobs(self, ids: Iterable[str]) -> list[Job]:
        """Return the jobs in the order of the claim, given the ids of this round in this order."""
        if self.was_held:
            return self.jobs
        positions = {id: position for position, id in enumerate(ids)}
        return sorted(self.jobs, key=lambda job: positions.get(job.id, -1))


def _reason(failed: StatementFailed) -> str:
    return f"the table rejects the write: {failed.reason}" if isinstance(failed, StatementRejected) else failed.reason
