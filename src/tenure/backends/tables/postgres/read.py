"""What is only read: find, stats, standing, and whether work is done."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from tenure.backends.postgres.encoding import Value, duration
from tenure.backends.protocol import SCAN
from tenure.backends.tables.postgres.bound_table import Place
from tenure.backends.tables.postgres.rows import moment
from tenure.core.job import State
from tenure.core.operations import MOST_AHEAD, Page, Query, Standing, Stats, StatsRow
from tenure.errors import ConfigurationError


def find(place: Place, query: Query) -> Page:
    """Return the rows that match among the next `SCAN`, at most a page full."""
    at = _place_of(place, query)
    if query.key is not None or not is_asked_for(place, query.queues, query.types):
        return Page(jobs=[], cursor=None)
    named = None if query.ids is None else [key for id in query.ids if (key := place.keys.key_of(id)) is not None]
    values = {
        **({} if named is None else place.keys.values(named)),
        **{f"at_{number}": value for number, value in enumerate(at or (), start=1)},
        "worker": query.worker,
        "error": query.error,
        "attempts_over": query.attempts_over,
        "due": query.due,
        "since": None if query.since is None else duration(query.since),
        "scan": SCAN,
        "limit": query.limit,
    }
    more = place.wording.of_find(
        State if query.states is None else query.states,
        is_named=named is not None,
        is_newest_first=query.newest_first,
        goes_on=at is not None,
    )
    ((rows, last),) = place.ask([place.step("find", "page", values, more)])
    return Page(jobs=place.reader().jobs(rows), cursor=None if last is None else _cursor_of(last))


def stats(place: Place) -> Stats:
    (answer,) = place.ask([place.step("stats", "stats", {"scan": SCAN})])
    due, scheduled, running, completed, failed, cancelled, oldest_due_at, recovered, prevented = answer
    if not any((due, scheduled, running, completed, failed, cancelled)):
        return Stats()
    row = StatsRow(
        queue=place.spec.label,
        type=place.spec.label,
        due=due,
        scheduled=scheduled,
        running=running,
        completed=completed,
        failed=failed,
        cancelled=cancelled,
        oldest_due_at=None if oldest_due_at is None else moment(oldest_due_at),
        recovered=recovered,
        prevented=prevented,
    )
    return Stats(rows=(row,))


def standing(place: Place, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> Standing | None:
    key = place.keys.key_of(id)
    if key is None:
        return None
    # Of what is not asked for, nothing is ahead.
    most = MOST_AHEAD if is_asked_for(place, queues, types) else 0
    (answer,) = place.ask([place.step("standing", "standing", {**place.keys.values([key]), "most": most})])
    if answer is None:
        return None
    now, row, ahead, is_chosen = answer
    return Standing(now=moment(now), job=place.reader().job(row), ahead=ahead, is_chosen=bool(is_chosen))


def already_done(place: Place, ids: Sequence[str]) -> list[bool]:
    if place.spec.done_if is None:
        raise ConfigurationError(f"{place.spec.shown} has no done_if in SQL; give one, or output=")
    keys = dict.fromkeys(key for id in ids if (key := place.keys.key_of(id)) is not None)
    if not keys:
        return [False] * len(ids)
    (rows,) = place.ask([place.step("done", "already done", place.keys.values(keys))])
    done = {place.keys.id_of(key) for key in rows}
    return [id in done for id in ids]


def is_asked_for(place: Place, queues: Sequence[str] | None, types: Sequence[str] | None) -> bool:
    """Tell whether rows of this table are among what is asked for; None is all."""
    label = place.spec.label
    return (queues is None or label in queues) and (types is None or label in types)


def _cursor_of(last: list[str | None]) -> str:
    """Return where a page ended, as somebody else keeps it."""
    return urlsafe_b64encode(json.dumps(last, ensure_ascii=False).encode()).decode()


def _place_of(place: Place, query: Query) -> list[Value] | None:
    if query.cursor is None:
        return None
    try:
        at: Any = json.loads(urlsafe_b64decode(query.cursor.encode()))
    except (ValueError, RecursionError):
        at = None
    count = place.wording.places
    if (
        not isinstance(at, list)
        or len(at) != count
        or not all(each is None or isinstance(each, str) for each in at)
        or place.keys.key_of(place.keys.id_of(at[count - len(place.spec.key) :])) is None
    ):
        raise ConfigurationError(f"cursor {query.cursor!r} is not one that find gave")
    return at
