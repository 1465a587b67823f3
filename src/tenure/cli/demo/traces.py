"""What the runs of this demo leave behind: a start, in a file beside the store, and a receipt, in the store itself.

A start is written before all else and outside of every transaction: it stays, whatever becomes of the run. A receipt is
the effect of the job. It is written in the transaction that completes it.
"""

import os
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Self

import tenure

# Without a primary key: what keeps a second receipt out has to be the fence, not this table.
TABLE = "create table receipts (job text not null, fence integer not null, worker text not null)"
WRITE = "insert into receipts (job, fence, worker) values (?, ?, ?)"
READ = "select job, fence, worker from receipts order by rowid"


class Trace(NamedTuple):
    """Which claim of which job it was, and whose."""

    job: str
    fence: int
    worker: str

    @classmethod
    def of(cls, job: tenure.Job) -> Self:
        """Return that of the claim by which the job is held, or was completed."""
        return cls(job.id, job.fence, job.worker or "")


def starts_beside(path: Path) -> Path:
    """Return the file of the starts of a store."""
    return path.with_suffix(".starts")


def write_start(starts: Path, trace: Trace) -> None:
    file = os.open(starts, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        # All at once: others write to its end too.
        os.write(file, "{} {} {}\n".format(*trace).encode())
    finally:
        os.close(file)


def read_starts(path: Path) -> list[Trace]:
    """Return what has begun, by the file beside this store."""
    try:
        lines = starts_beside(path).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [Trace(job, int(fence), worker) for job, fence, worker in (line.split(" ", 2) for line in lines)]


def create_receipts(path: Path) -> None:
    """Make the table. Only before others write to the file, since this does not take their lock."""
    import sqlite3

    with closing(sqlite3.connect(path)) as db:
        db.execute(TABLE)


def read_receipts(path: Path) -> list[Trace]:
    import sqlite3

    with closing(sqlite3.connect(path)) as db:
        return [Trace(*row) for row in db.execute(READ)]
