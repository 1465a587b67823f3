"""Convert rows of the server to values of the core."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tenure.backends.postgres.encoding import parse_timestamp
from tenure.core.job import Ending, Job, Outcome, Progress, State, build_job
from tenure.core.operations import WorkerInfo

STATES = {state.value: state for state in State}

JsonRow = Sequence[Any]


def decode_job(row: JsonRow) -> Job:
    """Build a job from the columns of `live` or `finished` in `fragments.sql`; the last column is the sequence."""
    *_, state, worker, leased_until, progress, cancel_requested, result, dropped, started_at, finished_at, _ = row
    return _job(
        row,
        STATES[state],
        worker,
        _optional_timestamp(leased_until),
        None if progress is None else Progress(**progress),
        cancel_requested,
        result,
        dropped,
        _optional_timestamp(started_at),
        _optional_timestamp(finished_at),
    )


def decode_claimed_job(row: JsonRow, worker: str, leased_until: datetime, started_at: datetime) -> Job:
    """Build a job from the columns of `taken` in `fragments.sql`, just claimed; the last column is the sequence."""
    return _job(row, State.RUNNING, worker, leased_until, None, False, None, False, started_at, None)


def decode_worker(row: JsonRow) -> WorkerInfo:
    """Build a worker from a row of `workers.sql`."""
    name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at, holding = row
    return WorkerInfo(
        name=name,
        host=host,
        pid=pid,
        version=version,
        concurrency=concurrency,
        queues=None if queues is None else tuple(queues),
        types=None if types is None else tuple(types),
        quiet_for=quiet_for,
        started_at=parse_timestamp(started_at),
        beat_at=parse_timestamp(beat_at),
        holding=holding,
    )


def progress_text(progress: Progress) -> str:
    return json.dumps({"done": progress.done, "of": progress.of, "note": progress.note}, ensure_ascii=False)


def _job(
    row: JsonRow,
    state: State,
    worker: str | None,
    leased_until: datetime | None,
    progress: Progress | None,
    cancel_requested: bool,  # noqa: FBT001
    result: Any,
    result_dropped: bool,  # noqa: FBT001
    started_at: datetime | None,
    finished_at: datetime | None,
) -> Job:
    """Build a job from the columns common to all its rows and from the rest. Positional for speed."""
    id, type, queue, key, priority, run_at, attempts, crashes, max_attempts, max_crashes = row[:10]
    timeout, fence, payload, meta, created_at, endings, lines = row[10:17]
    history = () if lines is None else tuple(_decode_ending(line) for line in lines)
    return build_job(
        id,
        type,
        payload,
        queue,
        key,
        priority,
        parse_timestamp(run_at),
        state,
        attempts,
        crashes,
        max_attempts,
        max_crashes,
        timeout,
        fence,
        worker,
        leased_until,
        progress,
        cancel_requested,
        result,
        result_dropped,
        history,
        endings - len(history),
        meta or {},
        parse_timestamp(created_at),
        started_at,
        finished_at,
    )


def _decode_ending(line: JsonRow) -> Ending:
    outcome, fence, ended_at, token, worker, claimed_at, error = line
    return Ending(
        outcome=Outcome(outcome),
        fence=fence,
        ended_at=parse_timestamp(ended_at),
        token=token,
        worker=worker,
        claimed_at=_optional_timestamp(claimed_at),
        error=error,
    )


def _optional_timestamp(text: str | None) -> datetime | None:
    return None if text is None else parse_timestamp(text)
