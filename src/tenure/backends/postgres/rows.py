"""What the server answers, as values of the core."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tenure.backends.postgres.encoding import parse_timestamp
from tenure.core.job import Ending, Job, Outcome, Progress, State, build_job
from tenure.core.operations import WorkerInfo

STATES = {state.value: state for state in State}

JsonRow = Sequence[Any]


def job_of(row: JsonRow) -> Job:
    """Return a job as `live` or `finished` shows it; its number follows."""
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


def claimed_job(row: JsonRow, worker: str, leased_until: datetime, started_at: datetime) -> Job:
    """Return a job that was just claimed, as `taken` shows it; its number follows."""
    return _job(row, State.RUNNING, worker, leased_until, None, False, None, False, started_at, None)


def worker_of(row: JsonRow) -> WorkerInfo:
    """Return the worker of a row that `workers.sql` shows."""
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
    """Return a job by the columns that all its rows begin with, and by the rest. No names: this is for every job."""
    id, type, queue, key, priority, run_at, attempts, crashes, max_attempts, max_crashes = row[:10]
    timeout, fence, payload, meta, created_at, endings, lines = row[10:17]
    history = () if lines is None else tuple(_ending_of(line) for line in lines)
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


def _ending_of(line: JsonRow) -> Ending:
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
