"""What the server answers, as values of the core; the user's row as the driver itself would give it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

from tenure.backends.tables.postgres.keys import Keys
from tenure.backends.tables.postgres.layout import Layout
from tenure.core.checks import EARLIEST, LATEST
from tenure.core.job import FINISHED, Ending, Job, Outcome, Progress, State, build_job
from tenure.core.payload import decode

Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What a record has."""

    cancel_requested: bool = False
    progress: Progress | None = None
    result: Any = None
    result_dropped: bool = False
    history: tuple[Ending, ...] = ()
    dropped: int = 0


NOTHING = Noted()


def noted_in(record: Any) -> Noted:
    """Return what a record has; one that another hand has damaged counts as empty."""
    if record is None:
        return NOTHING
    try:
        progress, result = record.get("progress"), record.get("result")
        return Noted(
            cancel_requested=record.get("cancel_requested") is True,
            progress=None if progress is None else Progress(**progress),
            result=None if result is None else decode(result),
            result_dropped=record.get("result_dropped") is True,
            history=tuple(_ending_of(line) for line in record.get("history", ())),
            dropped=int(record.get("dropped", 0)),
        )
    except (AttributeError, TypeError, ValueError):
        return NOTHING


class Reader:
    """Reads one answer. It is not for several threads, since the driver's loaders are not."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._keys = Keys(layout.key)
        self._driver = Transformer()

    def jobs(self, rows: Sequence[Row]) -> list[Job]:
        return [self.job(row) for row in rows]

    def job(self, row: Row) -> Job:
        """Return a job as `shown` has it. What is another's writing in a column counts only in a state that has it."""
        key, texts, word, attempts, crashes, fence, worker, leased_until, run_at = row[:9]
        priority, created_at, started_at, completed_at, record = row[9:]
        state, noted = State(word), noted_in(record)
        is_running, spec = state is State.RUNNING, self._layout.spec
        created = _optional_moment(created_at)
        return build_job(
            self._keys.id_of(key),
            spec.label,
            self._row(texts),
            spec.label,
            None,
            priority,
            _optional_moment(run_at) or created or EARLIEST,
            state,
            attempts,
            crashes,
            spec.max_attempts,
            spec.max_crashes,
            None,
            fence,
            worker if is_running or state is State.COMPLETED else None,
            _optional_moment(leased_until) if is_running else None,
            noted.progress,
            is_running and noted.cancel_requested,
            noted.result,
            noted.result_dropped,
            noted.history,
            noted.dropped,
            {},
            created or EARLIEST,
            _optional_moment(started_at),
            _optional_moment(completed_at) if state in FINISHED else None,
        )

    def _row(self, texts: Sequence[str | None]) -> dict[str, Any]:
        pairs = zip(self._layout.columns, texts, strict=True)
        return {column.name: None if text is None else self._value(column.base_oid, text) for column, text in pairs}

    def _value(self, oid: int, text: str) -> Any:
        try:
            return self._driver.get_loader(oid, pq.Format.TEXT).load(text.encode())
        except psycopg.DataError:
            # The driver has no value for it, such as for a date that never comes. To raise would leave the row claimed.
            return text


def moment(text: str) -> datetime:
    """Return a moment of an answer; one that no moment can be, such as infinity, is the last or the first there is."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return EARLIEST if text.startswith("-") or text.endswith("BC") else LATEST


def _optional_moment(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


def _ending_of(line: Row) -> Ending:
    outcome, fence, ended_at, token, worker, claimed_at, error = line
    return Ending(
        outcome=Outcome(outcome),
        fence=fence,
        ended_at=moment(ended_at),
        token=token,
        worker=worker,
        claimed_at=_optional_moment(claimed_at),
        error=error,
    )
