"""What is done to rows by hand."""

from dataclasses import replace

from tenure.backends.sqlite.timestamps import moment
from tenure.backends.sqlite.write_transaction import Write
from tenure.backends.tables.sqlite.claim import keep
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.record import Record
from tenure.backends.tables.sqlite.rows import Stored, row_of
from tenure.backends.tables.sqlite.sql_templates import statement
from tenure.backends.tables.sqlite.storage_formats import value_of
from tenure.core.job import Ending, Outcome, State
from tenure.core.operations import Move, Moved, Refusal
from tenure.core.table.spec import Role, quoted
from tenure.core.transitions import refusal


def move(write: Write, layout: Layout, id: str, move: Move, note: str) -> Moved:
    stored = row_of(write, layout, id)
    if stored is None or stored.state is None or not stored.is_job:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    refused = refusal(move, stored.state, cancel_requested=stored.record.cancel_requested)
    if refused is not None:
        return Moved(id=id, state=stored.state, refusal=refused)
    keep(write, layout, stored.key)
    line = Ending(outcome=Outcome.OPERATOR, fence=stored.fence, ended_at=moment(write.now), error=note)
    return Moved(id=id, state=_move(write, layout, stored, move, stored.record.with_line(line)))


def _move(write: Write, layout: Layout, stored: Stored, move: Move, record: Record) -> State:
    """Move a row that may be moved; return where it is then."""
    note = record.last_note
    if move is Move.RETRY:
        run_at = layout.moment(Role.RUN_AT, write.now)
        values = layout.values(stored.key, run_at=run_at, record=record.of_a_new_claim().text(), error=note)
        write.execute(statement(layout, "move", "retry"), values)
        _clear(write, layout, stored)
        return State.QUEUED
    if stored.state is State.RUNNING:
        asked = replace(record, cancel_requested=True).text()
        write.execute(statement(layout, "move", "ask to cancel"), layout.values(stored.key, record=asked, error=note))
        return State.RUNNING
    completed_at = layout.moment(Role.COMPLETED_AT, write.now)
    values = layout.values(stored.key, completed_at=completed_at, record=record.text(), error=note)
    write.execute(statement(layout, "move", "cancel"), values)
    return State.CANCELLED


def _clear(write: Write, layout: Layout, stored: Stored) -> None:
    """Set the columns of the user's that a retry sets."""
    if not (columns := layout.spec.on_retry):
        return
    values = {f"set_{n}": value_of(f"on_retry[{name!r}]", value) for n, (name, value) in enumerate(columns.items())}
    cleared = ", ".join(f"{quoted(name)} = :set_{n}" for n, name in enumerate(columns))
    write.execute(statement(layout, "move", "clear", cleared=cleared), layout.values(stored.key, **values))
