"""Explain when a claim takes a job."""

import sqlite3
from collections.abc import Sequence

from tenure.backends.protocol import SCAN
from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.lanes import ALL, filter_variant, statement_variants
from tenure.backends.sqlite.rows import decode_job, decode_worker, encode_names
from tenure.backends.sqlite.timestamps import duration, to_datetime, to_microseconds
from tenure.core.job import Job, State
from tenure.core.operations import MAX_AHEAD_COUNTED, SILENT_WORKER_TTL, ClaimOutlook, WorkerInfo

EXPLAIN = statement_variants("explain")
JOB, IS_PAUSED = EXPLAIN[ALL]["job"], EXPLAIN[ALL]["is paused"]
WORKERS = statements(__package__, "workers")


def explain(
    db: sqlite3.Connection, id: str, queues: Sequence[str] | None, types: Sequence[str] | None, now: int
) -> ClaimOutlook | None:
    row = db.execute(JOB, {"id": id}).fetchone()
    if row is None:
        return None
    job, sequence = decode_job(row), row[-1]
    is_due = job.state is State.QUEUED and to_microseconds(job.run_at) <= now
    (is_paused,) = db.execute(IS_PAUSED, {"queue": job.queue}).fetchone()
    return ClaimOutlook(
        now=to_datetime(now),
        job=job,
        is_paused=bool(is_paused),
        ahead=_count_ahead(db, job, sequence, queues, types, now) if is_due else 0,
        holder=_read_worker(db, job.worker, now) if job.state is State.RUNNING else None,
    )


def _count_ahead(
    db: sqlite3.Connection,
    job: Job,
    sequence: int,
    queues: Sequence[str] | None,
    types: Sequence[str] | None,
    now: int,
) -> int:
    values = {
        "queues": encode_names(queues),
        "types": encode_names(types),
        "priority": job.priority,
        "run_at": to_microseconds(job.run_at),
        "sequence": sequence,
        "now": now,
        "scan": SCAN,
        "most": MAX_AHEAD_COUNTED,
    }
    (number,) = db.execute(EXPLAIN[filter_variant(queues, types)]["ahead"], values).fetchone()
    return int(number)


def _read_worker(db: sqlite3.Connection, worker: str | None, now: int) -> WorkerInfo | None:
    """Return the registry entry of a worker, live or silent."""
    values = {"names": encode_names([str(worker)]), "silent_since": now - duration(SILENT_WORKER_TTL)}
    row = db.execute(WORKERS["known"], values).fetchone()
    return None if row is None else decode_worker(row)
