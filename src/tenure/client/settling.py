"""Settle claims and extend leases, and wait for jobs that another transaction has locked."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from tenure.backends.protocol import Claiming
from tenure.client.keeper import BLOCKED, ticks
from tenure.core.log_fields import list_ids
from tenure.core.operations import BUSY, Extension, Hold, HoldStatus, Settled, Settlement, Unsettled
from tenure.errors import StoreUnavailable

log = logging.getLogger(__name__)

BUSY_TIMEOUT = 10.0
"""Seconds to wait until other transactions have released their locks."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.25


class Waiting(threading.local):
    """What a thread calls before it waits for a locked job."""

    before: Callable[[], None] | None = None


waiting = Waiting()


def settle(store: Claiming, settlements: Sequence[Settlement]) -> Sequence[Settled]:
    """Settle claims; send the settlements of locked jobs again, for at most `BUSY_TIMEOUT` seconds.

    If the store becomes unavailable meanwhile, the known results are returned, and `BUSY` for the other settlements.
    """
    settled = store.settle(settlements)
    pauses = _pauses(BUSY_TIMEOUT)
    while BUSY in settled and next(pauses, False):
        busy = [settlement for settlement, each in zip(settlements, settled, strict=True) if each is BUSY]
        try:
            again = iter(store.settle(busy))
        except StoreUnavailable as exc:
            if len(busy) == len(settlements):
                raise
            log.warning(
                "settlements of locked jobs not sent again: %s", exc, extra={"jobs": [each.hold.id for each in busy]}
            )
            return settled
        settled = [next(again) if each is BUSY else each for each in settled]
    return settled


def extend(store: Claiming, extension: Extension, timeout: float) -> tuple[float, HoldStatus]:
    """Extend a lease; while the job is locked, retry until the timeout. Return when the last request was sent."""
    sent_at = ticks()
    (status,) = store.extend([extension])
    pauses = _pauses(timeout)
    while status is HoldStatus.BUSY and next(pauses, False):
        sent_at = ticks()
        (status,) = store.extend([extension])
    return sent_at, status


def _pauses(timeout: float) -> Iterator[bool]:
    """Pause, then yield True for a retry; end at the timeout."""
    ends_at, pause = ticks() + timeout, SHORTEST_PAUSE
    while ticks() < ends_at:
        if waiting.before is not None:
            waiting.before()
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE)
        yield True


def unextended_text(hold: Hold, status: HoldStatus) -> str:
    """Return the message for an extension that changed nothing, although the claim is not lost."""
    remedy = "see the log" if status is HoldStatus.REJECTED else "end that transaction, and retry"
    return f"lease of job {hold.id!r} not extended: {BLOCKED[status]}; {remedy}"


def unsettled_text(settlement: Settlement, unsettled: Unsettled, *others: Settlement) -> str:
    """Return the message for a settlement that is neither recorded nor lost, or for several with one rejection."""
    id, outcome = settlement.hold.id, settlement.outcome.value
    if unsettled.rejection is None:
        return (
            f"outcome {outcome!r} of job {id!r} not recorded: {BLOCKED[HoldStatus.BUSY]}; end that transaction, "
            "and retry"
        )
    if unsettled.is_failed:
        consequence = "the row failed with this message; fix the row or the table, then retry the row"
    elif unsettled.may_retry:
        consequence = "fix the table, its triggers, its conditions or the rights of the role, and retry"
    else:
        consequence = "the table also rejects the failure, so the row stays running; fix the row or the table"
    rejected = f"outcome {outcome!r} of row {id!r} rejected by its table"
    if others:
        ids = list_ids([repr(each.hold.id) for each in (settlement, *others)])
        rejected = f"outcomes of rows {ids} rejected by their table"
    return f"{rejected}: {unsettled.rejection}; {consequence}"
