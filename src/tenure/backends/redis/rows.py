"""Decode the JSON of script responses into jobs and workers."""

import json
from typing import Any

from tenure.backends.redis.encoding import decode_optional_timestamp, decode_timestamp
from tenure.core.fast_dataclass import fast_constructor
from tenure.core.job import GREATEST_PRIORITY, Ending, Job, Outcome, Progress, State, build_job
from tenure.core.operations import WorkerInfo
from tenure.core.payload import decode_response

STATES = (State.QUEUED, State.RUNNING, State.COMPLETED, State.FAILED, State.CANCELLED)
"""Indexed by the digit that a row stores."""
DIGITS = {state: str(digit) for digit, state in enumerate(STATES)}

PAYLOAD_LEVEL = 2
"""A response is a list of jobs, and a job is a list of fields."""

LOWEST_RANK = 10_000
"""The rank of a job with the greatest priority. The offset gives every rank five digits."""

OUTCOMES = {outcome.value: outcome for outcome in Outcome}

_build_ending = fast_constructor(Ending)


def rank_of(priority: int) -> int:
    return LOWEST_RANK + GREATEST_PRIORITY - priority


def decode_jobs(response: bytes) -> list[Job]:
    return [_decode_job(*fields) for fields in decode_response(response, PAYLOAD_LEVEL)]


def decode_worker(
    started_at: int,
    beat_at: int,
    name: str,
    host: str,
    pid: int,
    version: str,
    concurrency: int,
    queues: list[str] | None,
    types: list[str] | None,
    quiet_for: float,
    holding: int = 0,
) -> WorkerInfo:
    return WorkerInfo(
        name=name,
        host=host,
        pid=pid,
        version=version,
        concurrency=concurrency,
        queues=None if queues is None else tuple(queues),
        types=None if types is None else tuple(types),
        quiet_for=quiet_for,
        started_at=decode_timestamp(started_at),
        beat_at=decode_timestamp(beat_at),
        holding=holding,
    )


def _decode_job(
    id: str,
    type: str,
    queue: str,
    timeout: float | None,
    meta: dict[str, str],
    payload: dict[str, Any],
    state: int,
    _lane: int,
    rank: int,
    _sequence: int,
    run_at: int,
    attempts: int,
    crashes: int,
    fence: int,
    max_attempts: int | None,
    max_crashes: int,
    leased_until: int | None,
    started_at: int | None,
    created_at: int,
    finished_at: int | None,
    cancel_requested: int,
    first_line: int,
    _next_line: int,
    result_dropped: int,
    key: str | None,
    worker: str | None,
    _token: str | None,
    progress: str | None,
    _salt: str,
    result: Any,
    history: list[list[Any]],
) -> Job:
    """Build a job from content, row, result and history, in the order of `parts/job_json.lua`."""
    return build_job(
        id,
        type,
        payload,
        queue,
        key,
        LOWEST_RANK + GREATEST_PRIORITY - rank,
        decode_timestamp(run_at),
        STATES[state],
        attempts,
        crashes,
        max_attempts,
        max_crashes,
        timeout,
        fence,
        worker,
        decode_optional_timestamp(leased_until),
        None if progress is None else _decode_progress(progress),
        bool(cancel_requested),
        result,
        bool(result_dropped),
        tuple(_decode_ending(*line) for line in history) if history else (),
        first_line,
        meta,
        decode_timestamp(created_at),
        decode_optional_timestamp(started_at),
        decode_optional_timestamp(finished_at),
    )


def _decode_progress(text: str) -> Progress:
    done, of, note = json.loads(text)
    return Progress(done=done, of=of, note=note)


def _decode_ending(
    outcome: str,
    fence: int,
    token: str | None,
    worker: str | None,
    claimed_at: int | None,
    ended_at: int,
    error: str | None,
) -> Ending:
    return _build_ending(
        OUTCOMES[outcome],
        fence,
        decode_timestamp(ended_at),
        token,
        worker,
        decode_optional_timestamp(claimed_at),
        error,
    )
