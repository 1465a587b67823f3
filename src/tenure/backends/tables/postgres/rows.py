"""Decode results into core values; decode the user's row as the driver does."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from psycopg import pq
from psycopg.adapt import Transformer

from tenure.backends.postgres.rows import JsonRow
from tenure.backends.tables.postgres.keys import Keys
from tenure.backends.tables.postgres.layout import Layout
from tenure.core.checks import EARLIEST, LATEST
from tenure.core.job import FINISHED, Ending, Job, Outcome, Progress, State, build_job
from tenure.core.payload import decode_or_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContents:
    """The contents of the `record` column."""

    cancel_requested: bool = False
    progress: Progress | None = None
    result: Any = None
    result_dropped: bool = False
    history: tuple[Ending, ...] = ()
    dropped: int = 0


EMPTY_RECORD = RecordContents()


def decode_record(text: str | None) -> RecordContents:
    """Decode the `record` column. A record damaged by other code counts as empty."""
    if text is None:
        return EMPTY_RECORD
    try:
        record = json.loads(text)
        progress, result = record.get("progress"), record.get("result")
        return RecordContents(
            cancel_requested=record.get("cancel_requested") is True,
            progress=None if progress is None else Progress(**progress),
            result=None if result is None else decode_or_text(result),
            result_dropped=record.get("result_dropped") is True,
            history=tuple(_decode_ending(line) for line in record.get("history", ())),
            dropped=int(record.get("dropped", 0)),
        )
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
        return EMPTY_RECORD


class RowReader:
    """Decodes one result. Not thread-safe, because the driver's loaders are not."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._keys = Keys(layout.key)
        self._driver = Transformer()

    def decode_jobs(self, rows: Sequence[JsonRow]) -> list[Job]:
        return [self.decode_job(row) for row in rows]

    def decode_job(self, row: JsonRow) -> Job:
        """Decode a job from the array of the fragment `job_json`. Ignore a value that does not belong to the state.

        Other code may leave such a value behind, for example the lease of a queued row.
        """
        key, texts, state_name, attempts, crashes, fence, worker, leased_until, run_at = row[:9]
        priority, created_at, started_at, completed_at, record = row[9:]
        state, contents = State(state_name), decode_record(record)
        is_running, spec = state is State.RUNNING, self._layout.spec
        created = _optional_timestamp(created_at)
        return build_job(
            self._keys.id_of(key),
            spec.label,
            self._decode_row(texts),
            spec.label,
            None,
            priority,
            _optional_timestamp(run_at) or created or EARLIEST,
            state,
            attempts,
            crashes,
            spec.max_attempts,
            spec.max_crashes,
            None,
            fence,
            worker if is_running or state is State.COMPLETED else None,
            _optional_timestamp(leased_until) if is_running else None,
            contents.progress,
            is_running and contents.cancel_requested,
            contents.result,
            contents.result_dropped,
            contents.history,
            contents.dropped,
            {},
            created or EARLIEST,
            _optional_timestamp(started_at),
            _optional_timestamp(completed_at) if state in FINISHED else None,
        )

    def _decode_row(self, texts: Sequence[str | None]) -> dict[str, Any]:
        pairs = zip(self._layout.columns, texts, strict=True)
        return {
            column.name: None if text is None else self._decode_value(column.base_oid, text) for column, text in pairs
        }

    def _decode_value(self, oid: int, text: str) -> Any:
        try:
            return self._driver.get_loader(oid, pq.Format.TEXT).load(text.encode())
        except Exception:  # noqa: BLE001 - the loaders raise several kinds, such as RecursionError for deep JSON
            # Python cannot represent the value, such as the date infinity. Raising would leave the whole batch claimed.
            return text


def parse_timestamp(text: str) -> datetime:
    """Decode a timestamp; replace values out of range, such as infinity, by the latest or earliest time."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return EARLIEST if text.startswith("-") or text.endswith("BC") else LATEST


def _optional_timestamp(text: str | None) -> datetime | None:
    return None if text is None else parse_timestamp(text)


def _decode_ending(line: JsonRow) -> Ending:
    outcome, fence, ended_at, token, worker, claimed_at, error = line
    return Ending(
        outcome=Outcome(outcome),
        fence=int(fence),
        ended_at=parse_timestamp(ended_at),
        token=token,
        worker=worker,
        claimed_at=_optional_timestamp(claimed_at),
        error=error,
    )
