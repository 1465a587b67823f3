"""Claim and extend."""

from dataclasses import replace

from tenure.backends.protocol import SWEEP
from tenure.backends.sqlite.timestamps import duration, text_of
from tenure.backends.sqlite.write_transaction import Write
from tenure.backends.tables.sqlite.decoding import read
from tenure.backends.tables.sqlite.keys import Key
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.rows import Stored, job_of, row_of, row_of_key
from tenure.backends.tables.sqlite.settle import has_changed, reap_expired
from tenure.backends.tables.sqlite.sql_templates import statement
from tenure.core.job import Job
from tenure.core.operations import Claimed, ClaimRequest, Extension, Holding
from tenure.core.table.spec import Role


def claim(write: Write, layout: Layout, request: ClaimRequest) -> Claimed:
    if not _is_asked_for(layout, request):
        return Claimed(jobs=[])
    held = write.all(statement(layout, "claim", "held"), layout.values(token=request.token))
    if held:
        return Claimed(jobs=_jobs(write, layout, held))
    reap_expired(write, layout, SWEEP)
    values = layout.values(now=text_of(write.now), limit=request.limit)
    found: list[Key] = read(write.db, lambda: write.all(statement(layout, "claim", "free"), values))
    # A text that is no UTF-8 cannot be named again.
    keys = [key for key in found if layout.keys.key_of(layout.keys.id_of(key)) is not None]
    for key in keys:
        _take(write, layout, key, request)
    held = write.all(statement(layout, "claim", "held"), layout.values(token=request.token))
    return Claimed(jobs=_jobs(write, layout, held))


def extend(write: Write, layout: Layout, extension: Extension) -> Holding:
    stored = row_of(write, layout, extension.hold.id)
    if stored is None or not stored.is_held_by(extension.hold):
        return Holding.LOST
    leased_until = max(stored.leased_until or 0, write.now + duration(extension.lease))
    record = stored.record if extension.progress is None else replace(stored.record, progress=extension.progress)
    values = layout.values(
        stored.key, leased_until=layout.moment(Role.LEASED_UNTIL, leased_until), record=record.text()
    )
    if not has_changed(write.execute(statement(layout, "extend", "extend"), values)):
        return Holding.LOST
    return Holding.CANCEL_REQUESTED if record.cancel_requested else Holding.HELD


def keep(write: Write, layout: Layout, key: Key) -> None:
    """Have something kept of a row: a companion has no row for one that nobody took or moved."""
    if layout.spec.is_sidecar:
        write.execute(statement(layout, "claim", "begin"), layout.values(key))


def _is_asked_for(layout: Layout, request: ClaimRequest) -> bool:
    label = layout.spec.label
    return all(asked is None or label in asked for asked in (request.queues, request.types))


def _take(write: Write, layout: Layout, key: Key, request: ClaimRequest) -> None:
    keep(write, layout, key)
    stored = _stored(write, layout, key)
    values = layout.values(
        key,
        token=request.token,
        worker=request.worker,
        leased_until=layout.moment(Role.LEASED_UNTIL, write.now + duration(request.lease)),
        started_at=layout.moment(Role.STARTED_AT, write.now),
        record=stored.record.of_a_new_claim().text(),
    )
    write.execute(statement(layout, "claim", "take"), values)


def _jobs(write: Write, layout: Layout, keys: list[Key]) -> list[Job]:
    return [job_of(layout, _stored(write, layout, key)) for key in keys]


def _stored(write: Write, layout: Layout, key: Key) -> Stored:
    stored = row_of_key(write, layout, key)
    if stored is None:
        raise LookupError(f"row {key!r} is gone within the transaction that found it")
    return stored
