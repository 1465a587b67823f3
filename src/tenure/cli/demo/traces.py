"""The traces of a run: a start in a file beside the store, and a receipt in the store.

A run writes its start first, outside any transaction, so the start remains whatever happens to the run. The receipt is
the effect of the job, written in the transaction that completes the job.
"""

import os
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Self

import tenure

# No primary key: the fence has to prevent a second receipt, not a constraint of the table.
CREATE_RECEIPTS = "create table receipts (job text not null, fence integer not null, worker text not null)"
INSERT_RECEIPT = "insert into receipts (job, fence, worker) values (?, ?, ?)"
SELECT_RECEIPTS = "select job, fence, worker from receipts order by rowid"


class Trace(NamedTuple):
    """Identifies a claim: job, fence and worker."""

    job: str
    fence: int
    worker: str

    @classmethod
    def of(cls, job: tenure.Job) -> Self:
        """Return the trace of the current or last claim of a job."""
        return cls(job.id, job.fence, job.worker or "")


def starts_path(path: Path) -> Path:
    """Return the file of starts for a store."""
    return path.with_suffix(".starts")


def write_start(starts: Path, trace: Trace) -> None:
    file = os.open(starts, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        # A single write: other processes append to the same file.
        os.write(file, "{} {} {}\n".format(*trace).encode())
    finally:
        os.close(file)


def read_starts(path: Path) -> list[Trace]:
    """Return all starts of a store."""
    try:
        lines = starts_path(path).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [Trace(job, int(fence), worker) for job, fence, worker in (line.split(" ", 2) for line in lines)]


def create_receipts(path: Path) -> None:
    """Create the table. Call before other processes write: this does not take the write lock of the store."""
    import sqlite3

    with closing(sqlite3.connect(path)) as db:
        db.execute(CREATE_RECEIPTS)


def read_receipts(path: Path) -> list[Trace]:
    import sqlite3

    with closing(sqlite3.connect(path)) as db:
        return [Trace(*row) for row in db.execute(SELECT_RECEIPTS)]
