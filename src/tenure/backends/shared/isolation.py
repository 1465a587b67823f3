"""Split a failed batch, so that a failed item costs its neighbours nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tenure.core.operations import BUSY, Claimed, Settled, Settlement, Unsettled
from tenure.core.transitions import build_rejection
from tenure.errors import ConfigurationError, StoreUnavailable, TenureError

T = TypeVar("T")
R = TypeVar("R")

PARTS = 8
"""Number of parts into which a failed batch is split. With two, many failed items would cost nearly twice as much."""


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
    """A statement for one row took too long."""


def isolate(
    items: Sequence[T],
    run: Callable[[Sequence[T]], Sequence[R]],
    reject: Callable[[T, StatementFailed], Sequence[R]],
) -> list[R]:
    """Run a batch; if it fails, run parts of it, down to the items that fail alone. Return all results in order.

    `run` is one transaction. `reject` returns the results for an item that failed on its own.
    """
    if not items:
        return []
    try:
        return list(run(items))
    except StatementFailed as exc:
        if len(items) == 1:
            return list(reject(items[0], exc))
    size = -(-len(items) // PARTS)
    parts = (items[start : start + size] for start in range(0, len(items), size))
    return [result for part in parts for result in isolate(part, run, reject)]


def settle_isolated(
    settlements: Sequence[Settlement], settle: Callable[[Sequence[Settlement]], Sequence[Settled]]
) -> list[Settled]:
    """Settle; a rejected settlement fails its job with the message of the database, and a blocked one is busy.

    If the statement itself is invalid, the settlement may be retried: the outcome must not be lost while a table or a
    trigger is being changed.
    """
    failed: list[str] = []

    def run(part: Sequence[Settlement]) -> Sequence[Settled]:
        try:
            return settle(part)
        except StoreUnavailable as exc:
            if not failed or isinstance(exc, StatementFailed):
                raise
            # If all were sent again, the store would report the failed rows as lost.
            return [BUSY] * len(part)

    def fail(settlement: Settlement, rejected: StatementFailed) -> list[Settled]:
        if isinstance(rejected, StatementBlocked):
            return [BUSY]
        if rejected.is_invalid:
            return [Unsettled(rejected.reason, may_retry=True)]
        # The table may have rejected the error of the settlement, so the last try is without it.
        for each in dict.fromkeys([settlement, replace(settlement, error=None)]):
            try:
                (settled,) = settle([build_rejection(each, rejected.reason)])
            except StatementBlocked:
                return [BUSY]
            except StatementRejected:
                continue
            failed.append(settlement.hold.id)
            return [Unsettled(rejected.reason, is_failed=True) if settled is True else settled]
        return [Unsettled(rejected.reason)]

    return isolate(settlements, run, fail)


def claim_after_settling(settled: list[Settled], claim: Callable[[], Claimed]) -> tuple[list[Settled], Claimed]:
    """Claim in a transaction of its own, and return both results.

    If a row failed because its outcome was rejected, leave the claim to the next request. If the claim raised here, the
    settlements would be sent again, and the store would report the failed row as lost.
    """
    if any(isinstance(each, Unsettled) and each.is_failed for each in settled):
        return settled, Claimed(jobs=[], is_cut=True)
    return settled, claim()
