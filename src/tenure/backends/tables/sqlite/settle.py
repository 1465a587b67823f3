"""End claims: settle for the holder, or reap."""

import logging
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tenure.backends.sqlite.timestamps import duration, to_datetime
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.sqlite.decoding import read_tolerantly
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.record import PREVENTED, RECOVERED
from tenure.backends.tables.sqlite.rows import StoredRow, decode_row, find_row
from tenure.backends.tables.sqlite.sql_templates import fill_statement
from tenure.core.job import FINISHED, Ending, Outcome, State
from tenure.core.operations import Reaped, Settlement
from tenure.core.table.spec import Role
from tenure.core.transitions import RULES, apply_cancel_request, expiry_note, is_exhausted, next_state

log = logging.getLogger(__name__)

UNKNOWN_WORKER = "unknown"
"""The worker of a running row without a worker name: other code set the state."""


def settle(write: WriteTransaction, layout: Layout, settlements: Sequence[Settlement]) -> list[bool]:
    return [_settle(write, layout, each) for each in settlements]


def reap_expired(write: WriteTransaction, layout: Layout, limit: int) -> list[Reaped]:
    values = layout.values(expired_by=layout.encode_now(write.now), limit=limit)
    rows = read_tolerantly(write.db, lambda: write.fetch_all(fill_statement(layout, "reap", "expired"), values))
    return _without_skipped(_expire(write, layout, decode_row(layout, row)) for row in rows)


def reap_worker(
    write: WriteTransaction, layout: Layout, worker: str, started: Collection[str] | None, limit: int
) -> list[Reaped]:
    values = layout.values(worker=worker, limit=limit)
    rows = read_tolerantly(write.db, lambda: write.fetch_all(fill_statement(layout, "reap", "of the worker"), values))
    return _without_skipped(
        _expire(write, layout, stored, is_reported_dead=True)
        if started is None or stored.id in started
        else _release(write, layout, stored)
        for stored in (decode_row(layout, row) for row in rows)
    )


def is_done(write: WriteTransaction, layout: Layout, stored: StoredRow) -> bool:
    """Return whether `done_if` holds for a row."""
    if layout.spec.done_if is None:
        return False
    (holds,) = write.fetch_one(fill_statement(layout, "row", "is done"), layout.values(stored.key))
    return bool(holds)


def changed_row(cursor: sqlite3.Cursor) -> bool:
    """Return whether the statement changed a row: a trigger may skip the update."""
    return cursor.rowcount > 0


def _without_skipped(reaped: Iterable[Reaped | None]) -> list[Reaped]:
    return [each for each in reaped if each is not None]


def _settle(write: WriteTransaction, layout: Layout, settlement: Settlement) -> bool:
    stored = find_row(write, layout, settlement.hold.id)
    if stored is None:
        return False
    if not stored.is_held_by(settlement.hold):
        return _has_landed_before(stored, settlement)
    if settlement.state is State.COMPLETED:
        return _complete(write, layout, stored, settlement)
    return _end_for_holder(write, layout, stored, settlement)


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


def _expire(
    write: WriteTransaction, layout: Layout, stored: StoredRow, *, is_reported_dead: bool = False
) -> Reaped | None:
    after = replace(stored, crashes=stored.crashes + RULES[Outcome.EXPIRED].crashes)
    worker = stored.worker or UNKNOWN_WORKER
    note = expiry_note(
        worker,
        claimed_at=to_datetime(stored.started_at or 0),
        leased_until=to_datetime(stored.leased_until or 0),
        registered=None,
        is_reported_dead=is_reported_dead,
    )
    try:
        is_recovered = is_done(write, layout, stored)
    except sqlite3.OperationalError as exc:
        # The row stays running until the user fixes done_if; due rows are claimed meanwhile.
        log.error("row %s of %s not reaped: done_if failed: %s", stored.id, layout.spec.display_name, exc)  # noqa: TRY400
        return None
    if is_recovered:
        state = State.COMPLETED
        has_ended = _recover(write, layout, after, note)
    else:
        spent = is_exhausted(after.attempts, layout.spec.max_attempts) or is_exhausted(
            after.crashes, layout.spec.max_crashes
        )
        state = next_state(Outcome.EXPIRED, exhausted=spent, cancel_requested=stored.record.cancel_requested)
        has_ended = _end_claim(write, layout, after, Outcome.EXPIRED, state, note)
    return Reaped(id=stored.id, state=state, worker=worker, fence=stored.fence) if has_ended else None


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


def _release(write: WriteTransaction, layout: Layout, stored: StoredRow) -> Reaped | None:
    """Release a row that a dead worker had not started."""
    state = next_state(Outcome.RELEASED, cancel_requested=stored.record.cancel_requested)
    after = replace(stored, attempts=stored.attempts + RULES[Outcome.RELEASED].attempts)
    has_ended = _end_claim(write, layout, after, Outcome.RELEASED, state)
    worker = stored.worker or UNKNOWN_WORKER
    return Reaped(id=stored.id, state=state, worker=worker, fence=stored.fence) if has_ended else None


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
