"""Split a failed batch, so that a failed item costs its neighbours nothing."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tenure.core.operations import BUSY, LARGEST_BATCH, Claimed, Settled, Settlement, Unsettled
from tenure.core.transitions import build_rejection
from tenure.errors import ConfigurationError, StoreUnavailable, TenureError

T = TypeVar("T")
R = TypeVar("R")

PARTS = 8
"""Number of parts into which a failed batch is split. With two, many failed items would cost nearly twice as much."""

ISOLATION_TIME = 2.5
"""Seconds after which the rest of a failed batch is postponed: the caller extends the leases of all items until it
knows what has been recorded."""


class StatementFailed(TenureError):  # noqa: N818 - named by the fact, as in `tenure.errors`
    """A statement failed, probably because of one of its rows. Nothing changed.

    `reason` is the message of the database. `is_invalid` means that the error does not depend on the values in the row,
    for example because a table or a right is missing.
    """

    def __init__(self, message: str, *, reason: str, is_invalid: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_invalid = is_invalid

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), str(self), reason=self.reason, is_invalid=self.is_invalid), ()


class StatementRejected(StatementFailed, ConfigurationError):  # noqa: N818
    """The database rejected a statement because of its content, and will reject it again."""


class StatementBlocked(StatementFailed, StoreUnavailable):
    """Another transaction holds a lock that a statement needs, for example through a trigger or a unique index."""


class StatementTimedOut(StatementFailed, StoreUnavailable):
    """A statement took too long, for example because of a slow trigger. It may succeed with fewer rows or more time."""


def isolate(
    items: Sequence[T],
    run: Callable[[Sequence[T]], Sequence[R]],
    reject: Callable[[T, StatementFailed], Sequence[R]],
    *,
    limit: Callable[[], int] = lambda: LARGEST_BATCH,
    postpone: Callable[[Sequence[T]], Sequence[R]] | None = None,
    longest: float = ISOLATION_TIME,
) -> list[R]:
    """Run a batch; if it fails, run parts of it, down to the items that fail alone. Return all results in order.

    `run` is one transaction of at most `limit()` items. The parts of a failed part run after all others: most items do
    not wait for the search for the failed one. `reject` returns the results for an item that failed alone; for an item
    that took too long, this comes last.

    `postpone` returns the results of items that are not run: when `longest` seconds have passed or the store has become
    unavailable, and some items have a result. Without `postpone`, all items are run, and the error is raised.
    """
    results: dict[int, Sequence[R]] = {}
    ends_at = math.inf if postpone is None else time.monotonic() + longest
    parts: deque[tuple[int, Sequence[T], StatementFailed | None]] = deque([(0, items, None)] if items else [])
    while parts:
        start, part, failed = parts.popleft()
        if len(part) > (size := limit()):
            parts.extendleft(reversed([(first, each, None) for first, each in _split(start, part, size)]))
            continue
        if postpone is not None and results and time.monotonic() >= ends_at:
            results[start] = postpone(part)
            continue
        try:
            results[start] = run(part) if failed is None else reject(part[0], failed)
        except StatementFailed as exc:
            if len(part) > 1:
                parts.extend((first, each, None) for first, each in _split(start, part, -(-len(part) // PARTS)))
            elif isinstance(exc, StatementTimedOut):
                parts.append((start, part, exc))
            else:
                results[start] = reject(part[0], exc)
        except StoreUnavailable:
            if postpone is None or not results:
                raise
            results[start], ends_at = postpone(part), -math.inf
    return [result for start in sorted(results) for result in results[start]]


def _split(start: int, part: Sequence[T], size: int) -> list[tuple[int, Sequence[T]]]:
    return [(start + offset, part[offset : offset + size]) for offset in range(0, len(part), size)]


def settle_isolated(
    settlements: Sequence[Settlement],
    settle: Callable[[Sequence[Settlement]], Sequence[Settled]],
    settle_patiently: Callable[[Sequence[Settlement]], Sequence[Settled]] | None = None,
    *,
    limit: Callable[[], int] = lambda: LARGEST_BATCH,
) -> list[Settled]:
    """Settle; a rejected settlement fails its job with the message of the database, and a blocked one is busy.

    If the statement itself is invalid, the settlement may be retried: the outcome must not be lost while a table or a
    trigger is being changed. `settle_patiently` gives a single settlement more time.
    """
    settling = _IsolatedSettling(settle, settle_patiently or settle)
    return isolate(settlements, settling.settle, settling.reject, limit=limit, postpone=lambda part: [BUSY] * len(part))


class _IsolatedSettling:
    def __init__(
        self,
        settle: Callable[[Sequence[Settlement]], Sequence[Settled]],
        settle_patiently: Callable[[Sequence[Settlement]], Sequence[Settled]],
    ) -> None:
        self._settle = settle
        self._settle_patiently = settle_patiently

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return [
            self._fail(settlement, settled.rejection)
            if isinstance(settled, Unsettled) and settled.rejection is not None
            else settled
            for settlement, settled in zip(settlements, self._settle(settlements), strict=True)
        ]

    def reject(self, settlement: Settlement, failed: StatementFailed) -> list[Settled]:
        """Return the result of a settlement that failed alone."""
        if isinstance(failed, StatementTimedOut):
            try:
                return list(self._settle_patiently([settlement]))
            except StatementFailed as exc:
                failed = exc
        if isinstance(failed, StatementBlocked):
            return [BUSY]
        if failed.is_invalid or isinstance(failed, StatementTimedOut):
            return [Unsettled(failed.reason, may_retry=True)]
        return [self._fail(settlement, failed.reason)]

    def _fail(self, settlement: Settlement, reason: str) -> Settled:
        """Fail the job with the reason for which its settlement was rejected."""
        # The table may have rejected the error of the settlement, so the last try is without it.
        for each in dict.fromkeys([settlement, replace(settlement, error=None)]):
            try:
                (settled,) = self._settle_patiently([build_rejection(each, reason)])
            except StatementRejected:
                continue
            except StatementFailed as exc:
                return BUSY if isinstance(exc, StatementBlocked) else Unsettled(exc.reason, may_retry=True)
            if settled is True:
                return Unsettled(reason, is_failed=True)
            if not isinstance(settled, Unsettled) or settled.may_retry:
                return settled
        return Unsettled(reason)


def claim_after_settling(settled: list[Settled], claim: Callable[[], Claimed]) -> tuple[list[Settled], Claimed]:
    """Claim in a transaction of its own, and return both results.

    If a row failed because its outcome was rejected, leave the claim to the next request. If the claim raised here, the
    settlements would be sent again, and the store would report the failed row as lost.
    """
    if any(isinstance(each, Unsettled) and each.is_failed for each in settled):
        return settled, Claimed(jobs=[], is_cut=True)
    return settled, claim()
