"""Claim and extend."""

import json
import sqlite3
from collections import Counter

from tenure.backends.protocol import SWEEP
from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.lanes import ALL, filter_variant, statement_variants
from tenure.backends.sqlite.merge import merge_first
from tenure.backends.sqlite.rows import SqlRow, decode_job, encode_names, encode_progress
from tenure.backends.sqlite.settle import reap_expired
from tenure.backends.sqlite.timestamps import duration
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.core.operations import Claimed, ClaimRequest, Event, Extension, HoldStatus

VARIANTS = statement_variants("claim")
CLAIM = VARIANTS[ALL]
EXTEND = statements(__package__, "extend")


def claim(write: WriteTransaction, request: ClaimRequest) -> Claimed:
    # The claim finds jobs through the counters of their lanes, so these must be up to date.
    write.flush()
    values = {"token": request.token, "now": write.now}
    holds_jobs, has_expired, has_scheduled = write.fetch_one(CLAIM["pending work"], values)
    if holds_jobs:
        return Claimed(jobs=[decode_job(row) for row in write.fetch_all(CLAIM["held"], values)])
    if has_expired:
        reap_expired(write, SWEEP)
        write.flush()
    if has_scheduled:
        _promote(write, request)
    return Claimed(jobs=[decode_job(row) for row in _take(write, request)])


def extend(write: WriteTransaction, extension: Extension) -> HoldStatus:
    hold = extension.hold
    values = {
        "id": hold.id,
        "fence": hold.fence,
        "token": hold.token,
        "leased_until": write.now + duration(extension.lease),
        "progress": None if extension.progress is None else encode_progress(extension.progress),
    }
    held = write.fetch_all(EXTEND["extend"], values)
    if not held:
        return HoldStatus.LOST
    ((cancel_requested,),) = held
    return HoldStatus.CANCEL_REQUESTED if cancel_requested else HoldStatus.HELD


def _promote(write: WriteTransaction, request: ClaimRequest) -> None:
    """Promote the jobs that became due, the oldest first."""
    rows = _merge_lanes(write, "lanes that came due", "came due", request, SWEEP)
    write.execute_many(CLAIM["promote"], [{"sequence": sequence} for _, sequence, _, _ in rows])
    for lane, number in Counter((queue, type) for *_, queue, type in rows).items():
        write.move_count(lane, "scheduled", "due", number)
    write.flush()


def _take(write: WriteTransaction, request: ClaimRequest) -> list[SqlRow]:
    rows = _merge_lanes(write, "due lanes", "due", request, request.limit)
    values = {
        "sequences": json.dumps([sequence for _, _, sequence, _, _ in rows]),
        "token": request.token,
        "worker": request.worker,
        "leased_until": write.now + duration(request.lease),
        "now": write.now,
    }
    taken = {row[-1]: row for row in write.fetch_all(CLAIM["take"], values)} if rows else {}
    for (queue, type), number in Counter((queue, type) for *_, queue, type in rows).items():
        write.move_count((queue, type), "due", "running", number)
        write.count_event(queue, Event.CLAIMED, number)
    return [taken[sequence] for _, _, sequence, _, _ in rows]


def _merge_lanes(
    write: WriteTransaction, heads_name: str, range_name: str, request: ClaimRequest, limit: int
) -> list[SqlRow]:
    statement = VARIANTS[filter_variant(request.queues, request.types)][heads_name]
    values = {"queues": encode_names(request.queues), "types": encode_names(request.types), "now": write.now}

    def open_range(queue: str, type: str) -> sqlite3.Cursor:
        return write.execute(CLAIM[range_name], {"queue": queue, "type": type, "now": write.now, "limit": limit})

    return merge_first(write.fetch_all(statement, values), open_range, limit)
