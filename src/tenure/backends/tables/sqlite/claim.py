"""Claim rows and extend leases."""

from dataclasses import replace

from tenure.backends.protocol import SWEEP
from tenure.backends.sqlite.timestamps import duration, format_timestamp
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.sqlite.decoding import read_tolerantly
from tenure.backends.tables.sqlite.keys import KeyValues
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.rows import StoredRow, decode_job, find_row, read_row
from tenure.backends.tables.sqlite.settle import changed_row, reap_expired
from tenure.backends.tables.sqlite.sql_templates import fill_statement
from tenure.core.job import Job
from tenure.core.operations import Claimed, ClaimRequest, Extension, HoldStatus
from tenure.core.table.spec import Role


def claim(write: WriteTransaction, layout: Layout, request: ClaimRequest) -> Claimed:
    if not _includes_table(layout, request):
        return Claimed(jobs=[])
    held = write.fetch_all(fill_statement(layout, "claim", "held"), layout.values(token=request.token))
    if held:
        return Claimed(jobs=_read_jobs(write, layout, held))
    reap_expired(write, layout, SWEEP)
    values = layout.values(now=format_timestamp(write.now), limit=request.limit)
    found: list[KeyValues] = read_tolerantly(
        write.db, lambda: write.fetch_all(fill_statement(layout, "claim", "free"), values)
    )
    # A key that is not valid UTF-8 has no id that could be read back.
    keys = [key for key in found if layout.keys.key_of(layout.keys.id_of(key)) is not None]
    for key in keys:
        _take(write, layout, key, request)
    held = write.fetch_all(fill_statement(layout, "claim", "held"), layout.values(token=request.token))
    return Claimed(jobs=_read_jobs(write, layout, held))


def extend(write: WriteTransaction, layout: Layout, extension: Extension) -> HoldStatus:
    stored = find_row(write, layout, extension.hold.id)
    if stored is None or not stored.is_held_by(extension.hold):
        return HoldStatus.LOST
    leased_until = max(stored.leased_until or 0, write.now + duration(extension.lease))
    record = stored.record if extension.progress is None else replace(stored.record, progress=extension.progress)
    values = layout.values(
        stored.key, leased_until=layout.encode_timestamp(Role.LEASED_UNTIL, leased_until), record=record.to_json()
    )
    if not changed_row(write.execute(fill_statement(layout, "extend", "extend"), values)):
        return HoldStatus.LOST
    return HoldStatus.CANCEL_REQUESTED if record.cancel_requested else HoldStatus.HELD


def ensure_sidecar_row(write: WriteTransaction, layout: Layout, key: KeyValues) -> None:
    """Create the sidecar row if it does not exist: the sidecar table has no row before the first claim or move."""
    if layout.spec.is_sidecar:
        write.execute(fill_statement(layout, "claim", "begin"), layout.values(key))


def _includes_table(layout: Layout, request: ClaimRequest) -> bool:
    label = layout.spec.label
    return all(names is None or label in names for names in (request.queues, request.types))


def _take(write: WriteTransaction, layout: Layout, key: KeyValues, request: ClaimRequest) -> None:
    ensure_sidecar_row(write, layout, key)
    stored = _read_row(write, layout, key)
    values = layout.values(
        key,
        token=request.token,
        worker=request.worker,
        leased_until=layout.encode_timestamp(Role.LEASED_UNTIL, write.now + duration(request.lease)),
        started_at=layout.encode_timestamp(Role.STARTED_AT, write.now),
        record=stored.record.for_new_claim().to_json(),
    )
    write.execute(fill_statement(layout, "claim", "take"), values)


def _read_jobs(write: WriteTransaction, layout: Layout, keys: list[KeyValues]) -> list[Job]:
    return [decode_job(layout, _read_row(write, layout, key)) for key in keys]


def _read_row(write: WriteTransaction, layout: Layout, key: KeyValues) -> StoredRow:
    stored = read_row(write, layout, key)
    if stored is None:
        raise LookupError(f"row {key!r} disappeared within the transaction that found it")
    return stored
