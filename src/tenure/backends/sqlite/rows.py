"""Convert rows of the file to values of `core`."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.timestamps import to_datetime, to_optional_datetime
from tenure.core.job import Ending, Job, Outcome, Progress, State, build_job
from tenure.core.operations import WorkerInfo
from tenure.core.payload import decode_or_text

COLUMNS = statements(__package__, "columns")
JOB = COLUMNS["job"]

ESCAPED = "surrogateescape"
"""How to decode bytes that are not valid UTF-8."""

STATE_BY_VALUE = {state.value: state for state in State}

SqlRow = tuple[Any, ...]


class ClaimColumns(NamedTuple):
    """The columns that decide whether a claim is held."""

    id: str
    sequence: int
    queue: str
    type: str
    state: str
    fence: int
    token: str | None


class HeldClaim(NamedTuple):
    """The columns that the end of a claim depends on."""

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


def decode_job(row: SqlRow) -> Job:
    """Convert a row selected with `JOB` to a job."""
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
    history = () if lines is None else tuple(_decode_ending(each) for each in json.loads(lines.decode(errors=ESCAPED)))
    return build_job(
        id,
        type,
        decode_or_text(payload.decode(errors=ESCAPED)),
        queue,
        key,
        priority,
        to_datetime(run_at),
        STATE_BY_VALUE[state],
        attempts,
        crashes,
        max_attempts,
        max_crashes,
        timeout,
        fence,
        worker,
        None if leased_until is None else to_datetime(leased_until),
        None if progress is None else decode_progress(progress),
        cancel_requested == 1,
        None if result is None else decode_or_text(result.decode(errors=ESCAPED)),
        result_dropped == 1,
        history,
        endings - len(history),
        {} if meta is None else _decode_meta(meta),
        to_datetime(created_at),
        None if started_at is None else to_datetime(started_at),
        None if finished_at is None else to_datetime(finished_at),
    )


def decode_worker(row: SqlRow) -> WorkerInfo:
    """Convert a row of `workers.sql` to a worker."""
    name, host, pid, version, concurrency, queues, types, quiet_for, started_at, beat_at, holding = row
    return WorkerInfo(
        name=name,
        host=host,
        pid=pid,
        version=version,
        concurrency=concurrency,
        queues=None if queues is None else tuple(json.loads(queues)),
        types=None if types is None else tuple(json.loads(types)),
        quiet_for=quiet_for,
        started_at=to_datetime(started_at),
        beat_at=to_datetime(beat_at),
        holding=holding,
    )


def encode_progress(progress: Progress) -> str:
    return json.dumps([progress.done, progress.of, progress.note])


def decode_progress(text: str) -> Progress:
    done, of, note = json.loads(text)
    return Progress(done=done, of=of, note=note)


def encode_names(names: Sequence[str] | None) -> str | None:
    """Encode names for a statement: a JSON list, or None for all."""
    return None if names is None else json.dumps(names)


def _decode_meta(content: bytes) -> dict[str, str]:
    """Decode the labels of a job. Damaged ones count as none."""
    found = decode_or_text(content.decode(errors=ESCAPED))
    return found if isinstance(found, dict) else {}


def _decode_ending(line: Sequence[Any]) -> Ending:
    outcome, fence, ended_at, token, worker, claimed_at, error = line
    return Ending(
        outcome=Outcome(outcome),
        fence=fence,
        ended_at=to_datetime(ended_at),
        token=token,
        worker=worker,
        claimed_at=to_optional_datetime(claimed_at),
        error=error,
    )
