"""The effect of a job in this demo: one row in a table beside the jobs, in the same file."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

# Without a primary key: what keeps a second receipt out has to be the fence, not this table.
TABLE = "create table receipts (job text not null, fence integer not null, worker text not null)"
WRITE = "insert into receipts (job, fence, worker) values (?, ?, ?)"
READ = "select job, fence, worker from receipts order by rowid"


class Receipt(NamedTuple):
    """Which claim of which job wrote it, and whose that was."""

    job: str
    fence: int
    worker: str


def url_of(path: Path, *, timeout: float) -> str:
    """Return the URL of the store in this file; `timeout` is how long to wait for other writers."""
    return f"sqlite:///{quote(str(path))}?timeout={timeout:g}"


def create(path: Path) -> None:
    """Make the table. Only before others write to the file, since this does not take their lock."""
    import sqlite3

    with closing(sqlite3.connect(path)) as db:
        db.execute(TABLE)


def read(path: Path) -> list[Receipt]:
    import sqlite3

    with closing(sqlite3.connect(path)) as db:
        return [Receipt(*row) for row in db.execute(READ)]
