"""Claim and extend.

Without a hint a claim promotes what came due, takes back what ran out, and walks every line from its beginning. A hint
says where each line was left, and that all this was done a moment ago: under it only what lies beyond is looked at, so
that entries of jobs long gone, which the server may not remove while somebody holds an old snapshot, are walked once a
second and not by each claim.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.backends.postgres.claim_scan import FURTHER, SPARE
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import array, duration, moment, optional_array
from tenure.backends.postgres.pipeline import Step
from tenure.backends.postgres.rows import Row, claimed, job_of, progress_text
from tenure.backends.postgres.settle import each_job_once, hold_values, lock_step, reap_expired
from tenure.backends.protocol import SWEEP
from tenure.core.operations import Claimed, ClaimRequest, Extension, Holding

QUEUE, TYPE, PRIORITY, RUN_AT = 2, 1, 4, 5
"""Where these stand in a row."""

Lane = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line was left: behind the job of this order."""

    rank: int
    run_at: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Hint:
    """Where each line was left, and which part of the last jobs the line had that gave the most."""

    places: Mapping[Lane, Place]
    share: float


def claim(database: Database, request: ClaimRequest) -> Claimed:
    *_, answer = database.ask(steps(database, request))
    return outcome(database, request, answer)


def steps(database: Database, request: ClaimRequest) -> list[Step]:
    """Return what a claim does; the last one answers."""
    hint = _hint_of(request)
    take = _take(database, request, limit=request.limit, most=_most(request.limit, hint))
    if hint is not None:
        return [take]
    return [reap_expired(database, SWEEP, request.token), _promote(database, request), take]


def only_takes(request: ClaimRequest) -> bool:
    """Tell whether a claim takes back nothing that ran out; else it might find what is just being completed."""
    return _hint_of(request) is not None


def outcome(database: Database, request: ClaimRequest, answer: Any) -> Claimed:
    """Return what a claim took; if lines were cut off before it had enough, look further down."""
    is_held, is_cut, leased_until, started_at, columns = answer
    rows = rows_of(columns)
    most = _most(request.limit, _hint_of(request))
    while is_cut and not is_held and len(rows) < request.limit:
        most *= FURTHER
        further = _take(database, request, limit=request.limit - len(rows), most=most, had=len(rows))
        ((is_held, is_cut, _, _, more),) = database.ask([further])
        # One that is before the others may have come meanwhile.
        rows = sorted([*rows, *rows_of(more)], key=_turn)
    if is_held:
        (held,) = database.ask([Step(database.statements["claim"]["held"], {"token": request.token})])
        return Claimed(jobs=[job_of(row) for row in held])
    worker, until, since = request.worker, moment(leased_until), moment(started_at)
    jobs = [claimed(row, worker, until, since) for row in rows]
    return Claimed(jobs=jobs, hint=_next_hint(request, rows))


def rows_of(columns: Sequence[Sequence[Any] | None]) -> list[Row]:
    """Return the rows whose columns these are; each is None if there are no rows."""
    return [] if columns[0] is None else list(zip(*columns, strict=True))


def extend(database: Database, extensions: Sequence[Extension]) -> list[Holding]:
    holdings: list[Holding] = []
    for part in each_job_once(extensions):
        lock, extending = lock_step(database, part), _extending(database, part)
        _, held = database.ask([lock, extending])
        asked_to_cancel = dict(held)
        holdings += [_holding(asked_to_cancel.get(number)) for number, _ in enumerate(part, start=1)]
    return holdings


def _holding(is_asked_to_cancel: bool | None) -> Holding:  # noqa: FBT001
    if is_asked_to_cancel is None:
        return Holding.LOST
    return Holding.CANCEL_REQUESTED if is_asked_to_cancel else Holding.HELD


def _hint_of(request: ClaimRequest) -> Hint | None:
    return request.hint if isinstance(request.hint, Hint) else None


def _most(limit: int, hint: Hint | None) -> int:
    """Return how many jobs of a line to look at: as many as it may have to give, if it is known how they mix."""
    return min(limit, math.ceil(limit * (1.0 if hint is None else 1.5 * hint.share))) + SPARE


def _next_hint(request: ClaimRequest, rows: Sequence[Row]) -> Hint | None:
    """Return where the lines were left. Nothing taken: nothing is known of what lies beyond."""
    if not rows:
        return None
    before = _hint_of(request)
    last = {(row[QUEUE], row[TYPE]): row for row in rows}
    left = {lane: Place(-row[PRIORITY], row[RUN_AT], row[-1]) for lane, row in last.items()}
    return Hint({**(before.places if before else {}), **left}, _greatest_share(rows, len(last)))


def _greatest_share(rows: Sequence[Row], lanes: int) -> float:
    if lanes == 1:
        return 1.0
    ((_, number),) = Counter((row[QUEUE], row[TYPE]) for row in rows).most_common(1)
    return number / len(rows)


def _turn(row: Row) -> tuple[int, datetime, int]:
    return -row[PRIORITY], moment(row[RUN_AT]), row[-1]


def _promote(database: Database, request: ClaimRequest) -> Step:
    values = {
        "queues": optional_array(request.queues),
        "types": optional_array(request.types),
        "limit": SWEEP,
        "token": request.token,
        "now": database.now(),
    }
    return Step(database.asking(request.queues, request.types)["claim"]["promote"], values)


def _take(database: Database, request: ClaimRequest, *, limit: int, most: int, had: int = 0) -> Step:
    """Return the taking; one that looks further has taken jobs for this token before."""
    hint = _hint_of(request)
    places = {} if hint is None else hint.places
    values = {
        "queues": optional_array(request.queues),
        "types": optional_array(request.types),
        "at_queues": array(queue for queue, _ in places),
        "at_types": array(type for _, type in places),
        "at_ranks": array(place.rank for place in places.values()),
        "at_run_ats": array(place.run_at for place in places.values()),
        "at_sequences": array(place.sequence for place in places.values()),
        "most": most,
        "limit": limit,
        "token": request.token,
        "had": had,
        "worker": request.worker,
        "lease": duration(request.lease),
        "now": database.now(),
    }
    return Step(database.asking(request.queues, request.types)["claim"]["take"], values)


def _extending(database: Database, extensions: Sequence[Extension]) -> Step:
    progress = [each.progress for each in extensions]
    values = {
        **hold_values(extensions),
        "leases": array(duration(each.lease) for each in extensions),
        "progress": array(None if each is None else progress_text(each) for each in progress),
        "now": database.now(),
    }
    return Step(database.statements["extend"]["extend"], values)
