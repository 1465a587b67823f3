"""Retry and cancel rows for an operator."""

from dataclasses import replace

from tenure.backends.sqlite.timestamps import to_datetime
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.sqlite.claim import ensure_sidecar_row
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.record import RowRecord
from tenure.backends.tables.sqlite.rows import StoredRow, find_row
from tenure.backends.tables.sqlite.sql_templates import fill_statement
from tenure.backends.tables.sqlite.storage_formats import encode_value
from tenure.core.job import Ending, Outcome, State
from tenure.core.operations import Move, Moved, Refusal
from tenure.core.table.spec import Role, quote_identifier
from tenure.core.transitions import refusal


def move(write: WriteTransaction, layout: Layout, id: str, move: Move, note: str) -> Moved:
    stored = find_row(write, layout, id)
    if stored is None or stored.state is None or not stored.is_job:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    refused = refusal(move, stored.state, cancel_requested=stored.record.cancel_requested)
    if refused is not None:
        return Moved(id=id, state=stored.state, refusal=refused)
    ensure_sidecar_row(write, layout, stored.key)
    line = Ending(outcome=Outcome.OPERATOR, fence=stored.fence, ended_at=to_datetime(write.now), error=note)
    return Moved(id=id, state=_apply_move(write, layout, stored, move, stored.record.with_line(line)))


def _apply_move(write: WriteTransaction, layout: Layout, stored: StoredRow, move: Move, record: RowRecord) -> State:
    """Apply an allowed move; return the new state."""
    note = record.last_note
    if move is Move.RETRY:
        run_at = layout.encode_timestamp(Role.RUN_AT, write.now)
        values = layout.values(stored.key, run_at=run_at, record=record.for_new_claim().to_json(), error=note)
        write.execute(fill_statement(layout, "move", "retry"), values)
        _set_retry_columns(write, layout, stored)
        return State.QUEUED
    if stored.state is State.RUNNING:
        record_json = replace(record, cancel_requested=True).to_json()
        write.execute(
            fill_statement(layout, "move", "request cancel"), layout.values(stored.key, record=record_json, error=note)
        )
        return State.RUNNING
    completed_at = layout.encode_timestamp(Role.COMPLETED_AT, write.now)
    values = layout.values(stored.key, completed_at=completed_at, record=record.to_json(), error=note)
    write.execute(fill_statement(layout, "move", "cancel"), values)
    return State.CANCELLED


def _set_retry_columns(write: WriteTransaction, layout: Layout, stored: StoredRow) -> None:
    """Set the user's columns listed in `on_retry`."""
    if not (columns := layout.spec.on_retry):
        return
    values = {f"set_{n}": encode_value(f"on_retry[{name!r}]", value) for n, (name, value) in enumerate(columns.items())}
    cleared = ", ".join(f"{quote_identifier(name)} = :set_{n}" for n, name in enumerate(columns))
    write.execute(fill_statement(layout, "move", "clear", cleared=cleared), layout.values(stored.key, **values))
