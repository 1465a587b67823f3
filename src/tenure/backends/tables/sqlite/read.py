"""Read operations: find, stats, explain, and the poll of a waiting claim."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from tenure.backends.protocol import SCAN
from tenure.backends.sqlite.timestamps import duration, format_timestamp, parse_timestamp, to_datetime
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.row_batches import Reaping
from tenure.backends.tables.sqlite import sort_position
from tenure.backends.tables.sqlite.claim import due_keys
from tenure.backends.tables.sqlite.decoding import read_tolerantly
from tenure.backends.tables.sqlite.keys import KeyValues
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.record import PREVENTED, RECOVERED
from tenure.backends.tables.sqlite.rows import StoredRow, decode_job, decode_row, find_row
from tenure.backends.tables.sqlite.settle import keys_to_reap
from tenure.backends.tables.sqlite.sql_templates import fill_statement, table_aliases
from tenure.core.job import FINISHED, Job, State
from tenure.core.operations import MAX_AHEAD_COUNTED, STUCK_AFTER, ClaimOutlook, Page, Query, Stats, StatsRow
from tenure.core.table.spec import Role, quote_identifier


def find(db: sqlite3.Connection, layout: Layout, query: Query, now: int) -> Page:
    """Return the matching jobs among the next `SCAN` rows, at most one page."""
    label = layout.spec.label
    if any(names is not None and label not in names for names in (query.queues, query.types)) or query.key is not None:
        return Page(jobs=[], cursor=None)
    row, _ = table_aliases(layout)
    is_reversed = query.newest_first
    position = None if query.cursor is None else sort_position.decode_cursor(query.cursor, layout.order)
    text = fill_statement(
        layout,
        "find",
        "page",
        sort_values=sort_position.select_list(layout.order, row),
        is_requested=_query_condition(layout, query),
        is_beyond="1"
        if position is None
        else sort_position.beyond_condition(layout.order, row, is_reversed=is_reversed, position=position),
        sorting=", ".join(each.sort_item(row, is_reversed=is_reversed) for each in layout.order),
    )
    values = layout.values(keys=_query_keys(layout, query), scan=SCAN, **sort_position.position_values(position or ()))
    return read_tolerantly(db, lambda: _read_page(layout, query, db.execute(text, values), now))


def _read_page(layout: Layout, query: Query, rows: Iterable[Sequence[Any]], now: int) -> Page:
    jobs: list[Job] = []
    width = len(layout.order)
    for examined, row in enumerate(rows, start=1):
        stored = decode_row(layout, row[width:])
        if _matches_query(stored, query, now):
            jobs.append(decode_job(layout, stored))
        if len(jobs) == query.limit or examined == SCAN:
            return Page(jobs=jobs, cursor=sort_position.encode_cursor(sort_position.read_position(row[:width])))
    return Page(jobs=jobs, cursor=None)


def stats(db: sqlite3.Connection, layout: Layout, now: int) -> Stats:
    return read_tolerantly(db, lambda: _read_stats(db, layout, now))


def _read_stats(db: sqlite3.Connection, layout: Layout, now: int) -> Stats:
    values = layout.values(now=format_timestamp(now), scan=SCAN)
    due, due_since = db.execute(fill_statement(layout, "stats", "due"), values).fetchone()
    (scheduled,) = db.execute(fill_statement(layout, "stats", "scheduled"), values).fetchone()
    found = dict(db.execute(fill_statement(layout, "stats", "found done"), values).fetchall())
    expired_by = layout.encode_now(now - duration(STUCK_AFTER))
    (stuck,) = db.execute(
        fill_statement(layout, "stats", "stuck"), layout.values(expired_by=expired_by, scan=SCAN)
    ).fetchone()
    numbers = {state: _count_state(db, layout, state) for state in State if state is not State.QUEUED}
    if not due and not scheduled and not any(numbers.values()):
        return Stats()
    since = parse_timestamp(due_since)
    return Stats(
        rows=(
            StatsRow(
                queue=layout.spec.label,
                type=layout.spec.label,
                due=due,
                scheduled=scheduled,
                oldest_due_at=None if since is None else to_datetime(since),
                recovered=found.get(RECOVERED, 0),
                prevented=found.get(PREVENTED, 0),
                stuck=stuck,
                **{state.value: number for state, number in numbers.items()},
            ),
        )
    )


def explain(
    db: sqlite3.Connection,
    layout: Layout,
    id: str,
    queues: Sequence[str] | None,
    types: Sequence[str] | None,
    now: int,
) -> ClaimOutlook | None:
    stored = find_row(WriteTransaction(db, now), layout, id)
    if stored is None or stored.state is None:
        return None
    counts_ahead = stored.is_due(now) and layout.spec.is_included(queues, types)
    ahead = _count_ahead(db, layout, stored, now) if counts_ahead else 0
    return ClaimOutlook(
        now=to_datetime(now), job=decode_job(layout, stored), ahead=ahead, matches_where=stored.matches_where
    )


def claimable_in(db: sqlite3.Connection, layout: Layout, now: int, avoided: Sequence[KeyValues] = ()) -> float | None:
    """Return the seconds until a claim may find a row: 0 for now, None if no row will become due or expire.

    The avoided rows do not count: a claim would not get them.
    """
    return read_tolerantly(db, lambda: _read_claimable_in(db, layout, now, avoided))


def _read_claimable_in(db: sqlite3.Connection, layout: Layout, now: int, avoided: Sequence[KeyValues]) -> float | None:
    read = WriteTransaction(db, now)
    values = layout.values(now=format_timestamp(now), expired_by=layout.encode_now(now))
    (is_free,) = db.execute(fill_statement(layout, "wait", "is free"), values).fetchone()
    if (is_free and due_keys(read, layout, 1, avoided)) or keys_to_reap(read, layout, Reaping(), 1, avoided):
        return 0.0
    (due,) = db.execute(fill_statement(layout, "wait", "next due"), values).fetchone()
    (lease,) = db.execute(fill_statement(layout, "wait", "next lease"), values).fetchone()
    nearest = [at for at in (parse_timestamp(due), parse_timestamp(lease)) if at is not None]
    return max(0, min(nearest) - now) / 1_000_000 if nearest else None


def _query_condition(layout: Layout, query: Query) -> str:
    """Return the conditions of a query that SQL can check; `_matches_query` checks the rest on the row."""
    row, kept = table_aliases(layout)
    conditions = ["1"]
    if query.states is not None:
        words = ", ".join(layout.state_literal(state) for state in State if state in query.states) or "null"
        state = f"{kept}.{quote_identifier(str(layout.spec.column(Role.STATE)))}"
        shown = f"coalesce({state}, {layout.state_literal(State.QUEUED)})" if layout.spec.is_sidecar else state
        conditions.append(f"{shown} in ({words})")
    if query.ids is not None:
        key = [f"{row}.{quote_identifier(name)}" for name in layout.spec.key]
        parts = ", ".join(f"json_extract(value, '$[{n}]')" for n in range(len(key)))
        conditions.append(f"({', '.join(key)}) in (select {parts} from json_each(:keys))")  # noqa: S608 - quoted
    return " and ".join(conditions)


def _query_keys(layout: Layout, query: Query) -> str | None:
    keys = [layout.keys.key_of(id) for id in query.ids or ()]
    return json.dumps([key for key in keys if key is not None])


def _matches_query(stored: StoredRow, query: Query, now: int) -> bool:
    """Check the conditions of a query that the SQL statement does not contain."""
    if stored.state is None or (query.ids is not None and stored.id not in query.ids):
        return False
    if query.worker is not None and stored.display_worker != query.worker:
        return False
    if query.attempts_over is not None and stored.attempts <= query.attempts_over:
        return False
    if query.error is not None and query.error not in (stored.record.last_error or ""):
        return False
    is_reached = stored.run_at is None or stored.run_at <= now
    if query.due is not None and (stored.state is not State.QUEUED or is_reached != query.due):
        return False
    return query.since is None or _finished_or_created_at(stored) >= now - duration(query.since)


def _finished_or_created_at(stored: StoredRow) -> int:
    """Return when a row finished; for an unfinished row, when it was created."""
    at = stored.completed_at if stored.state in FINISHED else None
    return at or stored.created_at or 0


def _count_state(db: sqlite3.Connection, layout: Layout, state: State) -> int:
    is_in_state = f"{quote_identifier(str(layout.spec.column(Role.STATE)))} = {layout.state_literal(state)}"
    _, kept = table_aliases(layout)
    text = fill_statement(layout, "stats", "of a state", is_of_state=f"{kept}.{is_in_state}")
    (number,) = db.execute(text, layout.values(scan=SCAN)).fetchone()
    return int(number)


def _count_ahead(db: sqlite3.Connection, layout: Layout, stored: StoredRow, now: int) -> int:
    terms, own_name = layout.claim_order, quote_identifier(layout.spec.name)
    found = fill_statement(layout, "explain", "sort position", sort_values=sort_position.select_list(terms, own_name))
    values = layout.values(stored.key)
    position = sort_position.read_position(read_tolerantly(db, lambda: db.execute(found, values).fetchone()))
    is_before = sort_position.beyond_condition(terms, own_name, is_reversed=True, position=position)
    text = fill_statement(layout, "explain", "ahead", is_before=is_before)
    values = layout.values(now=format_timestamp(now), most=MAX_AHEAD_COUNTED, **sort_position.position_values(position))
    (number,) = db.execute(text, values).fetchone()
    return int(number)
