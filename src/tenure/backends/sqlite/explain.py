"""What a claim of one job depends on."""

import sqlite3
from collections.abc import Sequence

from tenure.backends.protocol import SCAN
from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.lanes import ALL, by_asking, way_of
from tenure.backends.sqlite.rows import job_of, names_text, worker_of
from tenure.backends.sqlite.timestamps import duration, microseconds, moment
from tenure.core.job import Job, State
from tenure.core.operations import EVIDENCE_KEPT, MOST_AHEAD, Standing, Worker

STANDING = by_asking("standing")
JOB, IS_PAUSED = STANDING[ALL]["job"], STANDING[ALL]["is paused"]
WORKERS = statements(__package__, "workers")


def standing(
    db: sqlite3.Connection, id: str, queues: Sequence[str] | None, types: Sequence[str] | None, now: int
) -> Standing | None:
    row = db.execute(JOB, {"id": id}).fetchone()
    if row is None:
        return None
    job, sequence = job_of(row), row[-1]
    is_due = job.state is State.QUEUED and microseconds(job.run_at) <= now
    (is_paused,) = db.execute(IS_PAUSED, {"queue": job.queue}).fetchone()
    return Standing(
        now=moment(now),
        job=job,
        is_paused=bool(is_paused),
        ahead=_number_ahead(db, job, sequence, queues, types, now) if is_due else 0,
        holder=_known(db, job.worker, now) if job.state is State.RUNNING else None,
    )


def _number_ahead(
    db: sqlite3.Connection,
    job: Job,
    sequence: int,
    queues: Sequence[str] | None,
    types: Sequence[str] | None,
    now: int,
) -> int:
    values = {
        "queues": names_text(queues),
        "types": names_text(types),
        "priority": job.priority,
        "run_at": microseconds(job.run_at),
        "sequence": sequence,
        "now": now,
        "scan": SCAN,
        "most": MOST_AHEAD,
    }
    (number,) = db.execute(STANDING[way_of(queues, types)]["ahead"], values).fetchone()
    return int(number)


def _known(db: sqlite3.Connection, worker: str | None, now: int) -> Worker | None:
    """Return what the registry has of a worker, shown or silent."""
    values = {"names": names_text([str(worker)]), "silent_since": now - duration(EVIDENCE_KEPT)}
    row = db.execute(WORKERS["known"], values).fetchone()
    return None if row is None else worker_of(row)
