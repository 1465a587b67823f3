"""Rows of the file as values of the core."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.timestamps import moment, optional_moment
from tenure.core.job import Ending, Job, Outcome, Progress, State, build_job
from tenure.core.operations import Worker
from tenure.core.payload import decode

COLUMNS = statements(__package__, "columns")
JOB = COLUMNS["job"]

STATES = {state.value: state for state in State}

Row = tuple[Any, ...]


class Stored(NamedTuple):
    """What tells whether a claim of a job is held."""

    id: str
    sequence: int
    queue: str
    type: str
    state: str
    fence: int
    token: str | None


class Held(NamedTuple):
    """What the end of a claim depends on."""

    id: str
    sequence: int
    queue: str
    type: str
    fence: int
    token: str
    worker: str
    run_at: int
    attempts: int
    crashes: int
    max_attempts: int | None
    max_crashes: int
    cancel_requested: int
    started_at: int
    leased_until: int
    endings: int


def job_of(row: Row) -> Job:
    """Return the job of a row that was selected by `JOB`."""
    (
        id,
        type,
        queue,
        key,
        priority,
        run_at,
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
        created_at,
        started_at,
        finished_at,
        payload,
        meta,
        endings,
        lines,
        _,
    ) = row
    history = () if lines is None else tuple(_ending_of(each) for each in json.loads(lines))
    return build_job(
        id,
        type,
        decode(payload),
        queue,
        key,
        priority,
        moment(run_at),
        STATES[state],
        attempts,
        crashes,
        max_attempts,
        max_crashes,
        timeout,
        fence,
        worker,
        None if leased_until is None else moment(leased_until),
        None if progress is None else progress_of(progress),
        cancel_requested == 1,
        None if result is None else decode(result),
        result_dropped == 1,
        history,
        endings - len(history),
        {} if meta is None else decode(meta),
        moment(created_at),
        None if started_at is None else moment(started_at),
        None if finished_at is None else moment(finished_at),
    )


def worker_of(row: Row) -> Worker:
    """Return the worker of a row that `workers.sql` selected."""
    name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at, holding = row
    return Worker(
        name=name,
        host=host,
        pid=pid,
        version=version,
        concurrency=concurrency,
        queues=None if queues is None else tuple(json.loads(queues)),
        types=None if types is None else tuple(json.loads(types)),
        quiet_for=quiet_for,
        started_at=moment(started_at),
        beat_at=moment(beat_at),
        holding=holding,
    )


def progress_text(progress: Progress) -> str:
    return json.dumps([progress.done, progress.of, progress.note])


def progress_of(text: str) -> Progress:
    done, of, note = json.loads(text)
    return Progress(done=done, of=of, note=note)


def names_text(names: Sequence[str] | None) -> str | None:
    """Return names as a statement takes them: a JSON list, or None for all."""
    return None if names is None else json.dumps(names)


def _ending_of(line: Sequence[Any]) -> Ending:
    outcome, fence, ended_at, token, worker, claimed_at, error = line
    return Ending(
        outcome=Outcome(outcome),
        fence=fence,
        ended_at=moment(ended_at),
        token=token,
        worker=worker,
        claimed_at=optional_moment(claimed_at),
        error=error,
    )
