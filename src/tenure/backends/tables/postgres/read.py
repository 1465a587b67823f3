"""Read-only operations: find, stats, explain, and `done_if`."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from tenure.backends.postgres.encoding import Value, microseconds
from tenure.backends.postgres.errors import is_timeout
from tenure.backends.protocol import SCAN
from tenure.backends.shared.isolation import StatementRejected
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.rows import parse_timestamp
from tenure.core.job import State
from tenure.core.operations import MAX_AHEAD_COUNTED, STUCK_AFTER, ClaimOutlook, Page, Query, Stats, StatsRow
from tenure.errors import ConfigurationError, StoreUnavailable


def find(bound_table: BoundTable, query: Query) -> Page:
    """Return one page of the matching rows among the next `SCAN` rows."""
    position = _decode_cursor(bound_table, query)
    if query.key is not None or not bound_table.spec.is_included(query.queues, query.types):
        return Page(jobs=[], cursor=None)
    keys = None if query.ids is None else [key for id in query.ids if (key := bound_table.keys.key_of(id)) is not None]
    values = {
        **({} if keys is None else bound_table.keys.values(keys)),
        **{f"at_{number}": value for number, value in enumerate(position or (), start=1)},
        "worker": query.worker,
        "error": query.error,
        "attempts_over": query.attempts_over,
        "due": query.due,
        "since": None if query.since is None else microseconds(query.since),
        "scan": SCAN,
        "limit": query.limit,
    }
    more = bound_table.templates.find_fragments(
        State if query.states is None else query.states,
        has_keys=keys is not None,
        is_newest_first=query.newest_first,
        has_cursor=position is not None,
    )
    ((rows, last),) = bound_table.execute([bound_table.build_query("find", "page", values, more)])
    return Page(jobs=bound_table.reader().decode_jobs(rows), cursor=None if last is None else _encode_cursor(last))


def stats(bound_table: BoundTable) -> Stats:
    values = {"scan": SCAN, "stuck_after": microseconds(STUCK_AFTER)}
    (result,) = bound_table.execute([bound_table.build_query("stats", "stats", values)])
    due, scheduled, running, completed, failed, cancelled, oldest_due_at, recovered, prevented, stuck = result
    if not any((due, scheduled, running, completed, failed, cancelled)):
        return Stats()
    row = StatsRow(
        queue=bound_table.spec.label,
        type=bound_table.spec.label,
        due=due,
        scheduled=scheduled,
        running=running,
        completed=completed,
        failed=failed,
        cancelled=cancelled,
        oldest_due_at=None if oldest_due_at is None else parse_timestamp(oldest_due_at),
        recovered=recovered,
        prevented=prevented,
        stuck=stuck,
    )
    return Stats(rows=(row,))


def explain(
    bound_table: BoundTable, id: str, queues: Sequence[str] | None, types: Sequence[str] | None
) -> ClaimOutlook | None:
    key = bound_table.keys.key_of(id)
    if key is None:
        return None
    # No rows are ahead if the request does not include this table.
    most = MAX_AHEAD_COUNTED if bound_table.spec.is_included(queues, types) else 0
    (result,) = bound_table.execute(
        [bound_table.build_query("explain", "outlook", {**bound_table.keys.values([key]), "most": most})]
    )
    if result is None:
        return None
    now, row, ahead, is_chosen = result
    return ClaimOutlook(
        now=parse_timestamp(now), job=bound_table.reader().decode_job(row), ahead=ahead, matches_where=bool(is_chosen)
    )


def already_done(bound_table: BoundTable, ids: Sequence[str]) -> list[bool]:
    if bound_table.spec.done_if is None:
        raise ConfigurationError(f"{bound_table.spec.display_name} has no done_if in SQL; pass done_if= or output=")
    keys = dict.fromkeys(key for id in ids if (key := bound_table.keys.key_of(id)) is not None)
    if not keys:
        return [False] * len(ids)
    query = bound_table.build_query("done", "already done", bound_table.keys.values(keys))
    try:
        (rows,) = bound_table.execute([query])
    except StoreUnavailable as exc:
        if not is_timeout(exc):
            raise
        # The done_if of one row may be slow: the worker then checks the rows one by one.
        raise StatementRejected(f"done_if of {bound_table.spec.display_name}: {exc}", reason=str(exc)) from exc
    done = {bound_table.keys.id_of(key) for key in rows}
    return [id in done for id in ids]


def _encode_cursor(last: list[str | None]) -> str:
    """Encode the position of the last row of a page as an opaque cursor."""
    return urlsafe_b64encode(json.dumps(last, ensure_ascii=False).encode()).decode()


def _decode_cursor(bound_table: BoundTable, query: Query) -> list[Value] | None:
    if query.cursor is None:
        return None
    try:
        position: Any = json.loads(urlsafe_b64decode(query.cursor.encode()))
    except (ValueError, RecursionError):
        position = None
    count = bound_table.templates.cursor_length
    if (
        not isinstance(position, list)
        or len(position) != count
        or not all(each is None or isinstance(each, str) for each in position)
        or bound_table.keys.key_of(bound_table.keys.id_of(position[count - len(bound_table.spec.key) :])) is None
    ):
        raise ConfigurationError(f"invalid cursor {query.cursor!r}: pass a cursor that find returned for this table")
    return position
