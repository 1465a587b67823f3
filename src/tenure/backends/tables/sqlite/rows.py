"""Convert rows of the user's table, with their role columns, to jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tenure.backends.sqlite.timestamps import parse_timestamp, to_datetime, to_microseconds, to_optional_datetime
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.sqlite.decoding import read_tolerantly
from tenure.backends.tables.sqlite.keys import KeyValues
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.record import RowRecord, decode_record
from tenure.backends.tables.sqlite.sql_templates import ROLES, fill_statement
from tenure.core.checks import EARLIEST
from tenure.core.job import FINISHED, Job, State, build_job
from tenure.core.operations import Hold
from tenure.core.table.spec import Role

EARLIEST_TIME = to_microseconds(EARLIEST)

GREATEST_COUNT = 2**63 - 2
"""One less than the greatest integer of SQLite: tenure may add 1 to a counter that other code has set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """A row with its role columns. A row without a state is not a job. Timestamps are in microseconds.

    `has_sidecar_row` is whether the sidecar table has a row for the same key.
    """

    id: str
    key: KeyValues
    has_sidecar_row: bool
    matches_where: bool
    state: State | None
    leased_until: int | None
    worker: str | None
    attempts: int
    crashes: int
    fence: int
    token: str | None
    started_at: int | None
    completed_at: int | None
    priority: int
    run_at: int | None
    created_at: int | None
    record: RowRecord
    row: dict[str, Any]

    @property
    def is_job(self) -> bool:
        """Whether the row is a job: `where` matches, or the row is running or has a sidecar row."""
        is_shown = self.matches_where or self.has_sidecar_row or self.state is State.RUNNING
        return self.state is not None and is_shown

    @property
    def display_run_at(self) -> int:
        """When the row became due; without `run_at`, when it was created, or else `EARLIEST_TIME`."""
        if self.run_at is not None:
            return self.run_at
        return EARLIEST_TIME if self.created_at is None else self.created_at

    @property
    def display_worker(self) -> str | None:
        """The worker that holds or completed the row."""
        return self.worker if self.state in {State.RUNNING, State.COMPLETED} else None

    def is_due(self, now: int) -> bool:
        return self.state is State.QUEUED and self.matches_where and (self.run_at is None or self.run_at <= now)

    def is_held_by(self, hold: Hold) -> bool:
        return self.state is State.RUNNING and (self.fence, self.token) == (hold.fence, hold.token)


def decode_row(layout: Layout, values: Sequence[Any]) -> StoredRow:
    """Build a row from a result, in the column order of `sql_templates`, with or without the user's columns."""
    width = len(layout.spec.key)
    key, (has_sidecar_row, is_chosen), rest = tuple(values[:width]), values[width : width + 2], values[width + 2 :]
    roles = dict(zip(ROLES, rest, strict=False))
    is_new = layout.spec.is_sidecar and not has_sidecar_row
    return StoredRow(
        id=layout.keys.id_of(key),
        key=key,
        has_sidecar_row=bool(has_sidecar_row),
        matches_where=bool(is_chosen),
        state=State.QUEUED if is_new else layout.states.get(roles[Role.STATE]),
        leased_until=parse_timestamp(roles[Role.LEASED_UNTIL]),
        worker=_decode_text(roles[Role.WORKER]),
        attempts=_decode_integer(roles[Role.ATTEMPTS]),
        crashes=_decode_integer(roles[Role.CRASHES]),
        fence=_decode_integer(roles[Role.FENCE]),
        token=_decode_text(roles[Role.TOKEN]),
        started_at=parse_timestamp(roles[Role.STARTED_AT]),
        completed_at=parse_timestamp(roles[Role.COMPLETED_AT]),
        priority=_decode_integer(roles[Role.PRIORITY]),
        run_at=parse_timestamp(roles[Role.RUN_AT]),
        created_at=parse_timestamp(roles[Role.CREATED_AT]),
        record=decode_record(roles[Role.RECORD]),
        row=dict(zip([each.name for each in layout.user_columns], rest[len(ROLES) :], strict=False)),
    )


def find_row(write: WriteTransaction, layout: Layout, id: str) -> StoredRow | None:
    """Return the row of an id, whether it is a job or not; None if there is no row."""
    key = layout.keys.key_of(id)
    return None if key is None else read_row(write, layout, key)


def read_row(write: WriteTransaction, layout: Layout, key: KeyValues) -> StoredRow | None:
    return _read(write, layout, key, "row")


def find_claim(write: WriteTransaction, layout: Layout, id: str) -> StoredRow | None:
    """Return the row of an id without the user's columns, and without evaluating `where`: neither can fail then."""
    key = layout.keys.key_of(id)
    return None if key is None else read_claim(write, layout, key)


def read_claim(write: WriteTransaction, layout: Layout, key: KeyValues) -> StoredRow | None:
    """Return a row without the user's columns, and without evaluating `where`."""
    return _read(write, layout, key, "claim")


def held_keys(write: WriteTransaction, layout: Layout, token: str) -> list[KeyValues]:
    """Return the keys of the rows that a token holds, in claim order."""
    return write.fetch_all(fill_statement(layout, "claim", "held"), layout.values(token=token))


def first_keys(
    write: WriteTransaction,
    layout: Layout,
    operation: str,
    name: str,
    values: Mapping[str, Any],
    limit: int,
    avoided: Sequence[KeyValues],
) -> list[KeyValues]:
    """Return the first keys of a statement with a limit, except the avoided ones and those without an id."""
    skipped, statement = set(avoided), fill_statement(layout, operation, name)
    number = limit + len(skipped)
    while True:
        bound = layout.values(**values, limit=number)
        found: list[KeyValues] = read_tolerantly(write.db, partial(write.fetch_all, statement, bound))
        usable = [key for key in found if key not in skipped and layout.keys.has_id(key)]
        if len(usable) >= limit or len(found) < number:
            return usable[:limit]
        number *= 2


def _read(write: WriteTransaction, layout: Layout, key: KeyValues, name: str) -> StoredRow | None:
    found = read_tolerantly(write.db, lambda: write.fetch_one(fill_statement(layout, "row", name), layout.values(key)))
    stored = None if found is None else decode_row(layout, found)
    # A collation may treat other texts as equal; an id matches only the row with exactly this key.
    return stored if stored is not None and stored.key == key else None


def decode_job(layout: Layout, stored: StoredRow) -> Job:
    state = stored.state
    if state is None:
        raise ValueError(f"row {stored.id!r} has no valid state")
    record, is_running, is_finished = stored.record, state is State.RUNNING, state in FINISHED
    label, spec = layout.spec.label, layout.spec
    return build_job(
        stored.id,
        label,
        stored.row,
        label,
        None,
        stored.priority,
        to_datetime(stored.display_run_at),
        state,
        stored.attempts,
        stored.crashes,
        spec.max_attempts,
        spec.max_crashes,
        None,
        stored.fence,
        stored.display_worker,
        to_optional_datetime(stored.leased_until) if is_running else None,
        record.progress,
        record.cancel_requested and is_running,
        record.result_value,
        record.result_dropped,
        record.history,
        record.dropped,
        {},
        to_datetime(EARLIEST_TIME if stored.created_at is None else stored.created_at),
        to_optional_datetime(stored.started_at),
        to_optional_datetime(stored.completed_at) if is_finished else None,
    )


def _decode_integer(value: object) -> int:
    """Decode a counter. A number out of range becomes the nearest number in range; any other value becomes 0."""
    if isinstance(value, int) and value <= GREATEST_COUNT:
        return value
    return int(max(-GREATEST_COUNT, min(value, GREATEST_COUNT))) if isinstance(value, int | float) else 0


def _decode_text(value: object) -> str | None:
    return None if value is None else str(value)
