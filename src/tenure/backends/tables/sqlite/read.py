"""What is only read: find, stats, standing, and what a waiting claim looks at."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from tenure.backends.protocol import SCAN
from tenure.backends.sqlite.timestamps import duration, microseconds_of, moment, text_of
from tenure.backends.sqlite.write_transaction import Write
from tenure.backends.tables.sqlite import sort_position as places
from tenure.backends.tables.sqlite.decoding import read
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.record import PREVENTED, RECOVERED
from tenure.backends.tables.sqlite.rows import Stored, job_of, row_of, stored_of
from tenure.backends.tables.sqlite.sql_templates import aliases_of, statement
from tenure.core.job import FINISHED, Job, State
from tenure.core.operations import MOST_AHEAD, Page, Query, Standing, Stats, StatsRow
from tenure.core.table.spec import Role, quoted


def find(db: sqlite3.Connection, layout: Layout, query: Query, now: int) -> Page:
    """Return the jobs that match among the next `SCAN`, at most a page full."""
    label = layout.spec.label
    if any(asked is not None and label not in asked for asked in (query.queues, query.types)) or query.key is not None:
        return Page(jobs=[], cursor=None)
    row, _ = aliases_of(layout)
    is_reversed = query.newest_first
    place = None if query.cursor is None else places.place_of(query.cursor, layout.order)
    text = statement(
        layout,
        "find",
        "page",
        places=places.selected(layout.order, row),
        is_asked_for=_is_asked_for(layout, query),
        is_beyond="1" if place is None else places.beyond(layout.order, row, is_reversed=is_reversed),
        sorting=", ".join(each.sorted(row, is_reversed=is_reversed) for each in layout.order),
    )
    values = layout.values(keys=_keys(layout, query), scan=SCAN, **places.values_of(place or ()))
    return read(db, lambda: _page(layout, query, db.execute(text, values), now))


def _page(layout: Layout, query: Query, found: Iterable[Sequence[Any]], now: int) -> Page:
    jobs: list[Job] = []
    width = len(layout.order)
    for looked_at, row in enumerate(found, start=1):
        stored = stored_of(layout, row[width:])
        if _is_wanted(stored, query, now):
            jobs.append(job_of(layout, stored))
        if len(jobs) == query.limit or looked_at == SCAN:
            return Page(jobs=jobs, cursor=places.cursor_of(row[:width]))
    return Page(jobs=jobs, cursor=None)


def stats(db: sqlite3.Connection, layout: Layout, now: int) -> Stats:
    values = layout.values(now=text_of(now), scan=SCAN)
    due, due_since = db.execute(statement(layout, "stats", "due"), values).fetchone()
    (scheduled,) = db.execute(statement(layout, "stats", "scheduled"), values).fetchone()
    found = dict(db.execute(statement(layout, "stats", "found done"), values).fetchall())
    numbers = {state: _number_of(db, layout, state) for state in State if state is not State.QUEUED}
    if not due and not scheduled and not any(numbers.values()):
        return Stats()
    since = microseconds_of(due_since)
    return Stats(
        rows=(
            StatsRow(
                queue=layout.spec.label,
                type=layout.spec.label,
                due=due,
                scheduled=scheduled,
                oldest_due_at=None if since is None else moment(since),
                recovered=found.get(RECOVERED, 0),
                prevented=found.get(PREVENTED, 0),
                **{state.value: number for state, number in numbers.items()},
            ),
        )
    )


def standing(
    db: sqlite3.Connection,
    layout: Layout,
    id: str,
    queues: Sequence[str] | None,
    types: Sequence[str] | None,
    now: int,
) -> Standing | None:
    stored = row_of(Write(db, now), layout, id)
    if stored is None or stored.state is None:
        return None
    label = layout.spec.label
    is_asked_for = all(asked is None or label in asked for asked in (queues, types))
    ahead = _number_ahead(db, layout, stored, now) if stored.is_due(now) and is_asked_for else 0
    return Standing(now=moment(now), job=job_of(layout, stored), ahead=ahead, is_chosen=stored.is_chosen)


def claimable_in(db: sqlite3.Connection, layout: Layout, now: int) -> float | None:
    """Return in how many seconds a claim may find something; 0 is now, None is not as things are."""
    values = layout.values(now=text_of(now))
    (is_free,) = db.execute(statement(layout, "wait", "is free"), values).fetchone()
    if is_free:
        return 0.0
    (due,) = db.execute(statement(layout, "wait", "next due"), values).fetchone()
    (lease,) = db.execute(statement(layout, "wait", "next lease"), values).fetchone()
    nearest = [at for at in (microseconds_of(due), microseconds_of(lease)) if at is not None]
    return max(0, min(nearest) - now) / 1_000_000 if nearest else None


def _is_asked_for(layout: Layout, query: Query) -> str:
    """Return what of a query the file can tell: the rest is decided on the job."""
    row, kept = aliases_of(layout)
    asked = ["1"]
    if query.states is not None:
        words = ", ".join(layout.word(state) for state in State if state in query.states) or "null"
        state = f"{kept}.{quoted(str(layout.spec.column(Role.STATE)))}"
        shown = f"coalesce({state}, {layout.word(State.QUEUED)})" if layout.spec.is_sidecar else state
        asked.append(f"{shown} in ({words})")
    if query.ids is not None:
        key = [f"{row}.{quoted(name)}" for name in layout.spec.key]
        parts = ", ".join(f"json_extract(value, '$[{n}]')" for n in range(len(key)))
        asked.append(f"({', '.join(key)}) in (select {parts} from json_each(:keys))")  # noqa: S608 - quoted
    return " and ".join(asked)


def _keys(layout: Layout, query: Query) -> str | None:
    keys = [layout.keys.key_of(id) for id in query.ids or ()]
    return json.dumps([key for key in keys if key is not None])


def _is_wanted(stored: Stored, query: Query, now: int) -> bool:
    """Tell whether every condition of a query holds that was not asked of the file."""
    if stored.state is None or (query.ids is not None and stored.id not in query.ids):
        return False
    if query.worker is not None and stored.shown_worker != query.worker:
        return False
    if query.attempts_over is not None and stored.attempts <= query.attempts_over:
        return False
    if query.error is not None and query.error not in (stored.record.last_error or ""):
        return False
    is_reached = stored.run_at is None or stored.run_at <= now
    if query.due is not None and (stored.state is not State.QUEUED or is_reached != query.due):
        return False
    return query.since is None or _happened_at(stored) >= now - duration(query.since)


def _happened_at(stored: Stored) -> int:
    """Return when a row finished, or if it did not came."""
    at = stored.completed_at if stored.state in FINISHED else None
    return at or stored.created_at or 0


def _number_of(db: sqlite3.Connection, layout: Layout, state: State) -> int:
    is_of_state = f"{quoted(str(layout.spec.column(Role.STATE)))} = {layout.word(state)}"
    _, kept = aliases_of(layout)
    text = statement(layout, "stats", "of a state", is_of_state=f"{kept}.{is_of_state}")
    (number,) = db.execute(text, layout.values(scan=SCAN)).fetchone()
    return int(number)


def _number_ahead(db: sqlite3.Connection, layout: Layout, stored: Stored, now: int) -> int:
    terms, own_name = layout.claim_order, quoted(layout.spec.name)
    found = statement(layout, "standing", "place", places=places.selected(terms, own_name))
    place = db.execute(found, layout.values(stored.key)).fetchone()
    text = statement(layout, "standing", "ahead", is_before=places.beyond(terms, own_name, is_reversed=True))
    values = layout.values(now=text_of(now), most=MOST_AHEAD, **places.values_of(place))
    (number,) = db.execute(text, values).fetchone()
    return int(number)
