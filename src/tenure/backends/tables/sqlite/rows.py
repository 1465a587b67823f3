"""Rows of the user's table, with what is kept of them, as values of the core."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenure.backends.sqlite.timestamps import microseconds, microseconds_of, moment, optional_moment
from tenure.backends.sqlite.write_transaction import Write
from tenure.backends.tables.sqlite.decoding import read
from tenure.backends.tables.sqlite.keys import Key
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.record import Record, record_of
from tenure.backends.tables.sqlite.sql_templates import ROLES, statement
from tenure.core.checks import EARLIEST
from tenure.core.job import FINISHED, Job, State, build_job
from tenure.core.operations import Hold
from tenure.core.table.spec import Role

EVER = microseconds(EARLIEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A row and what is kept of it. Without a state it is no job; moments are in microseconds.

    `has_companion` is whether a companion table has a row for it.
    """

    id: str
    key: Key
    has_companion: bool
    is_chosen: bool
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
    record: Record
    row: dict[str, Any]

    @property
    def is_job(self) -> bool:
        """Whether it is shown: what `where` does not choose is not, unless it runs, or a companion has it."""
        is_shown = self.is_chosen or self.has_companion or self.state is State.RUNNING
        return self.state is not None and is_shown

    @property
    def shown_run_at(self) -> int:
        """When it was due; without a moment of its own, when it came, or since ever."""
        if self.run_at is not None:
            return self.run_at
        return EVER if self.created_at is None else self.created_at

    @property
    def shown_worker(self) -> str | None:
        """Who holds it, or completed it."""
        return self.worker if self.state in {State.RUNNING, State.COMPLETED} else None

    def is_due(self, now: int) -> bool:
        return self.state is State.QUEUED and self.is_chosen and (self.run_at is None or self.run_at <= now)

    def is_held_by(self, hold: Hold) -> bool:
        return self.state is State.RUNNING and (self.fence, self.token) == (hold.fence, hold.token)


def stored_of(layout: Layout, found: Sequence[Any]) -> Stored:
    """Return what was read of a row, in the order of `wording`."""
    width = len(layout.spec.key)
    key, (has_companion, is_chosen), rest = tuple(found[:width]), found[width : width + 2], found[width + 2 :]
    roles = dict(zip(ROLES, rest, strict=False))
    is_new = layout.spec.is_sidecar and not has_companion
    return Stored(
        id=layout.keys.id_of(key),
        key=key,
        has_companion=bool(has_companion),
        is_chosen=bool(is_chosen),
        state=State.QUEUED if is_new else layout.states.get(roles[Role.STATE]),
        leased_until=microseconds_of(roles[Role.LEASED_UNTIL]),
        worker=_text(roles[Role.WORKER]),
        attempts=_number(roles[Role.ATTEMPTS]),
        crashes=_number(roles[Role.CRASHES]),
        fence=_number(roles[Role.FENCE]),
        token=_text(roles[Role.TOKEN]),
        started_at=microseconds_of(roles[Role.STARTED_AT]),
        completed_at=microseconds_of(roles[Role.COMPLETED_AT]),
        priority=_number(roles[Role.PRIORITY]),
        run_at=microseconds_of(roles[Role.RUN_AT]),
        created_at=microseconds_of(roles[Role.CREATED_AT]),
        record=record_of(roles[Role.RECORD]),
        row=dict(zip([each.name for each in layout.visible], rest[len(ROLES) :], strict=True)),
    )


def row_of(write: Write, layout: Layout, id: str) -> Stored | None:
    """Return the row of an id, job or not; None if there is none."""
    key = layout.keys.key_of(id)
    return None if key is None else row_of_key(write, layout, key)


def row_of_key(write: Write, layout: Layout, key: Key) -> Stored | None:
    found = read(write.db, lambda: write.one(statement(layout, "row", "row"), layout.values(key)))
    stored = None if found is None else stored_of(layout, found)
    # A column may take other texts for the same; an id is of the row that has exactly it.
    return stored if stored is not None and stored.key == key else None


def job_of(layout: Layout, stored: Stored) -> Job:
    state = stored.state
    if state is None:
        raise ValueError(f"row {stored.id!r} is in none of the states")
    record, is_running, is_finished = stored.record, state is State.RUNNING, state in FINISHED
    label, spec = layout.spec.label, layout.spec
    return build_job(
        stored.id,
        label,
        stored.row,
        label,
        None,
        stored.priority,
        moment(stored.shown_run_at),
        state,
        stored.attempts,
        stored.crashes,
        spec.max_attempts,
        spec.max_crashes,
        None,
        stored.fence,
        stored.shown_worker,
        optional_moment(stored.leased_until) if is_running else None,
        record.progress,
        record.cancel_requested and is_running,
        record.result_value,
        record.result_dropped,
        record.history,
        record.dropped,
        {},
        moment(EVER if stored.created_at is None else stored.created_at),
        optional_moment(stored.started_at),
        optional_moment(stored.completed_at) if is_finished else None,
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else int(value) if isinstance(value, float) else 0


def _text(value: object) -> str | None:
    return None if value is None else str(value)
