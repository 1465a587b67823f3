"""Claim rows and extend leases."""

from collections.abc import Sequence
from dataclasses import replace

from tenure.backends.protocol import SWEEP
from tenure.backends.sqlite.timestamps import duration, format_timestamp
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.row_batches import Reaping, Taken
from tenure.backends.tables.sqlite.keys import KeyValues
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.rows import (
    StoredRow,
    decode_job,
    find_claim,
    first_keys,
    held_keys,
    read_claim,
    read_row,
)
from tenure.backends.tables.sqlite.settle import changed_row, reap
from tenure.backends.tables.sqlite.sql_templates import fill_statement
from tenure.core.job import Job
from tenure.core.operations import ClaimRequest, Extension, HoldStatus
from tenure.core.table.spec import Role


def claim(
    write: WriteTransaction, layout: Layout, request: ClaimRequest, avoided: Sequence[KeyValues]
) -> Taken[KeyValues]:
    """Reap expired claims and take due rows, except the avoided ones."""
    held = held_keys(write, layout, request.token)
    if held:
        return Taken(jobs=_read_jobs(write, layout, held), was_held=True)
    reap(write, layout, Reaping(), SWEEP, avoided)
    return _take_rows(write, layout, request, due_keys(write, layout, request.limit, avoided))


def take(
    write: WriteTransaction, layout: Layout, request: ClaimRequest, keys: Sequence[KeyValues], already_taken: int
) -> Taken[KeyValues]:
    """Claim the due rows among the given keys, for a token that holds `already_taken` other rows."""
    held = held_keys(write, layout, request.token)
    if len(held) > already_taken:
        return Taken(jobs=_read_jobs(write, layout, held), was_held=True)
    return _take_rows(write, layout, request, [key for key in keys if _is_due(write, layout, key)])


def due_keys(write: WriteTransaction, layout: Layout, limit: int, avoided: Sequence[KeyValues] = ()) -> list[KeyValues]:
    """Return the keys of the first due rows, except the avoided ones."""
    return first_keys(write, layout, "claim", "free", {"now": format_timestamp(write.now)}, limit, avoided)


def extend(write: WriteTransaction, layout: Layout, extensions: Sequence[Extension]) -> list[HoldStatus]:
    return [_extend(write, layout, each) for each in extensions]


def ensure_sidecar_row(write: WriteTransaction, layout: Layout, key: KeyValues) -> None:
    """Create the sidecar row if it does not exist: the sidecar table has no row before the first claim or move."""
    if layout.spec.is_sidecar:
        write.execute(fill_statement(layout, "claim", "begin"), layout.values(key))


def _extend(write: WriteTransaction, layout: Layout, extension: Extension) -> HoldStatus:
    stored = find_claim(write, layout, extension.hold.id)
    if stored is None or not stored.is_held_by(extension.hold):
        return HoldStatus.LOST
    leased_until = max(stored.leased_until or 0, write.now + duration(extension.lease))
    record = stored.record if extension.progress is None else replace(stored.record, progress=extension.progress)
    values = layout.values(
        stored.key, leased_until=layout.encode_timestamp(Role.LEASED_UNTIL, leased_until), record=record.to_json()
    )
    if not changed_row(write.execute(fill_statement(layout, "extend", "extend"), values)):
        return HoldStatus.REJECTED
    return HoldStatus.CANCEL_REQUESTED if record.cancel_requested else HoldStatus.HELD


def _is_due(write: WriteTransaction, layout: Layout, key: KeyValues) -> bool:
    values = layout.values(key, now=format_timestamp(write.now))
    (is_due,) = write.fetch_one(fill_statement(layout, "claim", "is due"), values)
    return bool(is_due)


def _take_rows(
    write: WriteTransaction, layout: Layout, request: ClaimRequest, keys: Sequence[KeyValues]
) -> Taken[KeyValues]:
    """Take these rows. A row counts as taken only if the user's triggers left its state and token unchanged."""
    for key in keys:
        _take(write, layout, key, request)
    chosen, held = set(keys), held_keys(write, layout, request.token)
    taken = [key for key in held if key in chosen]
    missed = chosen.difference(taken)
    return Taken(jobs=_read_jobs(write, layout, taken), missed=[key for key in keys if key in missed])


def _take(write: WriteTransaction, layout: Layout, key: KeyValues, request: ClaimRequest) -> None:
    stored = read_claim(write, layout, key)
    # A trigger on an earlier row of the claim may have deleted this one.
    if stored is None:
        return
    ensure_sidecar_row(write, layout, key)
    values = layout.values(
        key,
        token=request.token,
        worker=request.worker,
        leased_until=layout.encode_timestamp(Role.LEASED_UNTIL, write.now + duration(request.lease)),
        started_at=layout.encode_timestamp(Role.STARTED_AT, write.now),
        record=stored.record.for_new_claim().to_json(),
    )
    write.execute(fill_statement(layout, "claim", "take"), values)


def _read_jobs(write: WriteTransaction, layout: Layout, keys: Sequence[KeyValues]) -> list[Job]:
    return [decode_job(layout, _read_row(write, layout, key)) for key in keys]


def _read_row(write: WriteTransaction, layout: Layout, key: KeyValues) -> StoredRow:
    stored = read_row(write, layout, key)
    if stored is None:
        raise LookupError(f"row {key!r} disappeared within the transaction that found it")
    return stored
