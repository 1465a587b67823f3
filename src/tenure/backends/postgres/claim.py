"""Claim jobs and extend leases.

Without a hint, a claim promotes due jobs, reaps expired leases and scans every lane from its start. A hint holds the
position where the last claim stopped in each lane, and implies that promotion and reaping ran recently: the claim then
scans only from these positions on. While an old snapshot keeps VACUUM from removing dead index entries, workers
therefore scan the dead entries once a second instead of in every claim.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.backends.postgres.claim_scan import EXTRA_SCAN, SCAN_GROWTH
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import array, microseconds, optional_array, parse_timestamp
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.rows import JsonRow, decode_claimed_job, decode_job, progress_text
from tenure.backends.postgres.settle import hold_values, reap_expired_query, split_by_job
from tenure.backends.protocol import SWEEP
from tenure.core.operations import Claimed, ClaimRequest, Extension, HoldStatus

QUEUE, TYPE, PRIORITY, RUN_AT = 2, 1, 4, 5
"""Column positions in a row."""

LaneKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """The sort key of the last job claimed from a lane; the next claim starts after it."""

    rank: int
    run_at: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Hint:
    """The scan position in each lane, and the largest share that one lane had in the last claim."""

    positions: Mapping[LaneKey, ScanPosition]
    share: float


def claim(database: Database, request: ClaimRequest) -> Claimed:
    *_, result = database.execute(queries(database, request))
    return read_outcome(database, request, result)


def queries(database: Database, request: ClaimRequest) -> list[BoundQuery]:
    """Return the queries of a claim; the last query returns the jobs."""
    hint = _hint_of(request)
    take = _take_query(database, request, limit=request.limit, depth=_scan_depth(request.limit, hint))
    if hint is not None:
        return [take]
    return [reap_expired_query(database, SWEEP, request.token), _promote_query(database, request), take]


def skips_reaping(request: ClaimRequest) -> bool:
    """Return whether a claim reaps nothing. A reaping claim could find jobs that a concurrent transaction completes."""
    return _hint_of(request) is not None


def read_outcome(database: Database, request: ClaimRequest, result: Any) -> Claimed:
    """Return the claimed jobs; scan deeper if a lane was cut off before the claim reached its limit."""
    is_held, is_cut, leased_until, started_at, columns = result
    rows = rows_of(columns)
    depth = _scan_depth(request.limit, _hint_of(request))
    while is_cut and not is_held and len(rows) < request.limit:
        depth *= SCAN_GROWTH
        further = _take_query(database, request, limit=request.limit - len(rows), depth=depth, already_taken=len(rows))
        ((is_held, is_cut, _, _, more),) = database.execute([further])
        # A job that sorts before the first batch may have been enqueued meanwhile.
        rows = sorted([*rows, *rows_of(more)], key=_sort_key)
    if is_held:
        (held,) = database.execute([BoundQuery(database.statements["claim"]["held"], {"token": request.token})])
        return Claimed(jobs=[decode_job(row) for row in held])
    worker, until, since = request.worker, parse_timestamp(leased_until), parse_timestamp(started_at)
    jobs = [decode_claimed_job(row, worker, until, since) for row in rows]
    return Claimed(jobs=jobs, hint=_next_hint(request, rows))


def rows_of(columns: Sequence[Sequence[Any] | None]) -> list[JsonRow]:
    """Turn columns into rows. Without rows every column is None."""
    return [] if columns[0] is None else list(zip(*columns, strict=True))


def extend(database: Database, extensions: Sequence[Extension]) -> list[HoldStatus]:
    statuses: list[HoldStatus] = []
    for part in split_by_job(extensions):
        ((extended, busy),) = database.execute([_extend_query(database, part)], is_for_leases=True)
        found = dict.fromkeys(busy, HoldStatus.BUSY) | {
            number: HoldStatus.CANCEL_REQUESTED if cancel_requested else HoldStatus.HELD
            for number, cancel_requested in extended
        }
        statuses += [found.get(number, HoldStatus.LOST) for number, _ in enumerate(part, start=1)]
    return statuses


def _hint_of(request: ClaimRequest) -> Hint | None:
    return request.hint if isinstance(request.hint, Hint) else None


def _scan_depth(limit: int, hint: Hint | None) -> int:
    """Return how many jobs to scan in each lane: fewer if the hint shows how the lanes share a claim."""
    return min(limit, math.ceil(limit * (1.0 if hint is None else 1.5 * hint.share))) + EXTRA_SCAN


def _next_hint(request: ClaimRequest, rows: Sequence[JsonRow]) -> Hint | None:
    """Return the new scan positions; None if no job was claimed, so that the next claim scans from the start."""
    if not rows:
        return None
    before = _hint_of(request)
    last = {(row[QUEUE], row[TYPE]): row for row in rows}
    positions = {lane: ScanPosition(-row[PRIORITY], row[RUN_AT], row[-1]) for lane, row in last.items()}
    return Hint({**(before.positions if before else {}), **positions}, _greatest_share(rows, len(last)))


def _greatest_share(rows: Sequence[JsonRow], lanes: int) -> float:
    if lanes == 1:
        return 1.0
    ((_, number),) = Counter((row[QUEUE], row[TYPE]) for row in rows).most_common(1)
    return number / len(rows)


def _sort_key(row: JsonRow) -> tuple[int, datetime, int]:
    return -row[PRIORITY], parse_timestamp(row[RUN_AT]), row[-1]


def _promote_query(database: Database, request: ClaimRequest) -> BoundQuery:
    values = {
        "queues": optional_array(request.queues),
        "types": optional_array(request.types),
        "limit": SWEEP,
        "token": request.token,
        "now": database.now(),
    }
    return BoundQuery(database.statements_for(request.queues, request.types)["claim"]["promote"], values)


def _take_query(
    database: Database, request: ClaimRequest, *, limit: int, depth: int, already_taken: int = 0
) -> BoundQuery:
    """Return the query that takes jobs. `already_taken` counts the jobs that earlier passes took for this token."""
    hint = _hint_of(request)
    positions = {} if hint is None else hint.positions
    values = {
        "queues": optional_array(request.queues),
        "types": optional_array(request.types),
        "at_queues": array(queue for queue, _ in positions),
        "at_types": array(type for _, type in positions),
        "at_ranks": array(position.rank for position in positions.values()),
        "at_run_ats": array(position.run_at for position in positions.values()),
        "at_sequences": array(position.sequence for position in positions.values()),
        "most": depth,
        "limit": limit,
        "token": request.token,
        "had": already_taken,
        "worker": request.worker,
        "lease": microseconds(request.lease),
        "now": database.now(),
    }
    return BoundQuery(database.statements_for(request.queues, request.types)["claim"]["take"], values)


def _extend_query(database: Database, extensions: Sequence[Extension]) -> BoundQuery:
    progress = [each.progress for each in extensions]
    values = {
        **hold_values(extensions),
        "leases": array(microseconds(each.lease) for each in extensions),
        "progress": array(None if each is None else progress_text(each) for each in progress),
        "now": database.now(),
    }
    return BoundQuery(database.statements["extend"]["extend"], values)
