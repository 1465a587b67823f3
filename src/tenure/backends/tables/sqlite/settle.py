"""End claims: settle for the holder, or reap."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tenure.backends.shared.isolation import StatementRejected
from tenure.backends.sqlite.timestamps import duration, to_datetime
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.row_batches import NO_EFFECT, REJECTION_NOTE, Reaping
from tenure.backends.tables.sqlite.keys import KeyValues
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.record import PREVENTED, RECOVERED
from tenure.backends.tables.sqlite.rows import StoredRow, find_claim, first_keys, read_claim
from tenure.backends.tables.sqlite.sql_templates import fill_statement
from tenure.core import checks
from tenure.core.job import FINISHED, Ending, Outcome, State
from tenure.core.operations import Reaped, Settled, Settlement, Unsettled
from tenure.core.table.spec import Role
from tenure.core.transitions import RULES, apply_cancel_request, expiry_note, is_exhausted, next_state

UNKNOWN_WORKER = "unknown"
"""The worker of a running row without a worker name: other code set the state."""


def settle(write: WriteTransaction, layout: Layout, settlements: Sequence[Settlement]) -> list[Settled]:
    return [_settle(write, layout, each) for each in settlements]


def reap(
    write: WriteTransaction, layout: Layout, reaping: Reaping, limit: int, avoided: Sequence[KeyValues]
) -> list[Reaped]:
    return _reap_keys(write, layout, reaping, keys_to_reap(write, layout, reaping, limit, avoided))


def reap_rows(
    write: WriteTransaction, layout: Layout, reaping: Reaping, keys: Sequence[KeyValues], rejection: str | None
) -> list[Reaped]:
    """Reap the claims of the rows; with a rejection, fail the rows with its message instead."""
    return _reap_keys(
        write, layout, reaping, [key for key in keys if _is_to_reap(write, layout, reaping, key)], rejection
    )


def keys_to_reap(
    write: WriteTransaction, layout: Layout, reaping: Reaping, limit: int, avoided: Sequence[KeyValues]
) -> list[KeyValues]:
    """Return the keys of the claims to reap, the longest expired first, except the avoided ones."""
    name = "expired" if reaping.worker is None else "of the worker"
    return first_keys(write, layout, "reap", name, _reap_values(write, layout, reaping), limit, avoided)


def is_done(write: WriteTransaction, layout: Layout, stored: StoredRow) -> bool:
    """Return whether `done_if` holds for a row."""
    if layout.spec.done_if is None:
        return False
    (holds,) = write.fetch_one(fill_statement(layout, "row", "is done"), layout.values(stored.key))
    return bool(holds)


def changed_row(cursor: sqlite3.Cursor) -> bool:
    """Return whether the statement changed a row: a trigger may skip the update."""
    return cursor.rowcount > 0


def _is_to_reap(write: WriteTransaction, layout: Layout, reaping: Reaping, key: KeyValues) -> bool:
    name = "is expired" if reaping.worker is None else "is of the worker"
    values = layout.values(key, **_reap_values(write, layout, reaping))
    (is_to_reap,) = write.fetch_one(fill_statement(layout, "reap", name), values)
    return bool(is_to_reap)


def _reap_values(write: WriteTransaction, layout: Layout, reaping: Reaping) -> dict[str, Any]:
    return {"expired_by": layout.encode_now(write.now)} if reaping.worker is None else {"worker": reaping.worker}


def _reap_keys(
    write: WriteTransaction,
    layout: Layout,
    reaping: Reaping,
    keys: Iterable[KeyValues],
    rejection: str | None = None,
) -> list[Reaped]:
    claims = (read_claim(write, layout, key) for key in keys)
    return [_reap(write, layout, reaping, stored, rejection) for stored in claims if stored is not None]


def _reap(
    write: WriteTransaction, layout: Layout, reaping: Reaping, stored: StoredRow, rejection: str | None
) -> Reaped:
    """End a claim. Raise if the update has no effect."""
    is_started = reaping.worker is None or reaping.started is None or stored.id in reaping.started
    worker = stored.worker or UNKNOWN_WORKER
    note = expiry_note(
        worker,
        claimed_at=to_datetime(stored.started_at or 0),
        leased_until=to_datetime(stored.leased_until or 0),
        registered=None,
        is_reported_dead=reaping.worker is not None,
    )
    if rejection is not None:
        state = _fail_rejected(write, layout, stored, f"{note}; {REJECTION_NOTE}: {rejection}", is_started=is_started)
    elif is_started:
        state = _expire(write, layout, stored, note)
    else:
        state = _release(write, layout, stored)
    if state is None:
        raise StatementRejected(
            f"table {layout.spec.display_name!r} rejects a write of tenure: {NO_EFFECT}; check the table with "
            "`tenure doctor`",
            reason=NO_EFFECT,
        )
    return Reaped(id=stored.id, state=state, worker=worker, fence=stored.fence)


def _settle(write: WriteTransaction, layout: Layout, settlement: Settlement) -> Settled:
    stored = find_claim(write, layout, settlement.hold.id)
    if stored is None:
        return False
    if not stored.is_held_by(settlement.hold):
        return _has_landed_before(stored, settlement)
    end = _complete if settlement.state is State.COMPLETED else _end_for_holder
    return end(write, layout, stored, settlement) or Unsettled(NO_EFFECT)


def _has_landed_before(stored: StoredRow, settlement: Settlement) -> bool:
    """Return whether the same settlement landed before."""
    hold = settlement.hold
    if settlement.outcome is Outcome.COMPLETED:
        # A completed row with a lease was set by other code, which does not complete this claim.
        is_whole = stored.leased_until is None and stored.completed_at is not None
        return stored.state is State.COMPLETED and is_whole and (stored.fence, stored.token) == (hold.fence, hold.token)
    return stored.record.has_line(settlement.outcome, hold.fence, hold.token)


def _complete(write: WriteTransaction, layout: Layout, stored: StoredRow, settlement: Settlement) -> bool:
    record = replace(
        stored.record,
        cancel_requested=False,
        result=settlement.result,
        result_dropped=settlement.result_dropped,
        found_done=PREVENTED if settlement.found_done else None,
    )
    values = layout.values(
        stored.key,
        completed_at=layout.encode_timestamp(Role.COMPLETED_AT, write.now),
        record=record.to_json(),
        error=None,
    )
    return changed_row(write.execute(fill_statement(layout, "settle", "complete"), values))


def _end_for_holder(write: WriteTransaction, layout: Layout, stored: StoredRow, settlement: Settlement) -> bool:
    state = apply_cancel_request(settlement.state, cancel_requested=stored.record.cancel_requested)
    after = replace(stored, attempts=stored.attempts + settlement.attempts)
    has_ended = _end_claim(write, layout, after, settlement.outcome, state, settlement.error)
    if has_ended and settlement.delay is not None and state is State.QUEUED:
        run_at = layout.encode_timestamp(Role.RUN_AT, write.now + duration(settlement.delay))
        write.execute(fill_statement(layout, "settle", "set run_at"), layout.values(stored.key, run_at=run_at))
    return has_ended


def _expire(write: WriteTransaction, layout: Layout, stored: StoredRow, note: str) -> State | None:
    """End an expired claim; return the new state of the row, or None if the update has no effect."""
    after = replace(stored, crashes=stored.crashes + RULES[Outcome.EXPIRED].crashes)
    if is_done(write, layout, stored):
        return State.COMPLETED if _recover(write, layout, after, note) else None
    spent = is_exhausted(after.attempts, layout.spec.max_attempts) or is_exhausted(
        after.crashes, layout.spec.max_crashes
    )
    state = next_state(Outcome.EXPIRED, exhausted=spent, cancel_requested=stored.record.cancel_requested)
    return state if _end_claim(write, layout, after, Outcome.EXPIRED, state, note) else None


def _fail_rejected(
    write: WriteTransaction, layout: Layout, stored: StoredRow, note: str, *, is_started: bool
) -> State | None:
    """Fail a row, because the table rejected the usual end of its claim."""
    outcome = Outcome.EXPIRED if is_started else Outcome.RELEASED
    rule = RULES[outcome]
    after = replace(stored, attempts=stored.attempts + rule.attempts, crashes=stored.crashes + rule.crashes)
    error = checks.error_text("the reason", note)
    return State.FAILED if _end_claim(write, layout, after, outcome, State.FAILED, error) else None


def _recover(write: WriteTransaction, layout: Layout, stored: StoredRow, note: str) -> bool:
    """Complete an expired row whose work is already done."""
    record = replace(
        stored.record.with_line(_history_line(write, stored, Outcome.EXPIRED, note)),
        cancel_requested=False,
        found_done=RECOVERED,
    )
    values = layout.values(
        stored.key,
        crashes=stored.crashes,
        completed_at=layout.encode_timestamp(Role.COMPLETED_AT, write.now),
        record=record.to_json(),
        error=None,
    )
    return changed_row(write.execute(fill_statement(layout, "settle", "recover"), values))


def _release(write: WriteTransaction, layout: Layout, stored: StoredRow) -> State | None:
    """Release a row that a dead worker had not started."""
    state = next_state(Outcome.RELEASED, cancel_requested=stored.record.cancel_requested)
    after = replace(stored, attempts=stored.attempts + RULES[Outcome.RELEASED].attempts)
    return state if _end_claim(write, layout, after, Outcome.RELEASED, state) else None


def _end_claim(
    write: WriteTransaction, layout: Layout, stored: StoredRow, outcome: Outcome, state: State, error: str | None = None
) -> bool:
    """End a claim without completing the row. `stored` has the new attempts and crashes."""
    record = replace(stored.record.with_line(_history_line(write, stored, outcome, error)), cancel_requested=False)
    values = layout.values(
        stored.key,
        state=layout.spec.state_values[state],
        attempts=max(0, stored.attempts),
        crashes=stored.crashes,
        completed_at=layout.encode_timestamp(Role.COMPLETED_AT, write.now if state in FINISHED else None),
        record=record.to_json(),
        error=record.last_note,
    )
    return changed_row(write.execute(fill_statement(layout, "settle", "end"), values))


def _history_line(write: WriteTransaction, stored: StoredRow, outcome: Outcome, error: str | None) -> Ending:
    return Ending(
        outcome=outcome,
        fence=stored.fence,
        ended_at=to_datetime(write.now),
        token=stored.token,
        worker=stored.worker,
        claimed_at=None if stored.started_at is None else to_datetime(stored.started_at),
        error=error,
    )
