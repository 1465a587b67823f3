"""Hand-written SQLite: the minimum that a careful engineer would write, and the yardstick for all contestants."""

import json
import sqlite3
import time
from pathlib import Path

from benchmarks.contestants.contract import LEASE, PAYLOAD

BUSY_TIMEOUT = 30.0

SCHEMA = """
create table if not exists jobs (
    id integer primary key,
    payload text not null,
    state text not null default 'queued',
    priority integer not null default 0,
    run_at real not null,
    fence integer not null default 0,
    attempts integer not null default 0,
    worker text,
    leased_until real,
    finished_at real
)
"""
INDEX = "create index if not exists jobs_due on jobs (priority desc, run_at, id) where state = 'queued'"
ENQUEUE = "insert into jobs (payload, run_at) values (?, ?)"
CLAIM = """
update jobs
set state = 'running', fence = fence + 1, attempts = attempts + 1, worker = ?, leased_until = ?
where id in (
    select id from jobs where state = 'queued' and run_at <= ? order by priority desc, run_at, id limit ?
)
returning id, fence, payload
"""
COMPLETE = """
update jobs
set state = 'completed', leased_until = null, finished_at = ?
where id = ? and fence = ? and state = 'running'
"""


class RawQueue:
    def __init__(self, folder: Path, synchronous: str) -> None:
        self._connection = sqlite3.connect(folder / "raw.db", timeout=BUSY_TIMEOUT, isolation_level=None)
        for statement in ("pragma journal_mode = wal", f"pragma synchronous = {synchronous}", SCHEMA, INDEX):
            self._connection.execute(statement)

    def enqueue(self) -> None:
        self._connection.execute(ENQUEUE, (json.dumps(PAYLOAD), time.time()))

    def enqueue_many(self, number: int) -> None:
        self._connection.execute("begin immediate")
        self._connection.executemany(ENQUEUE, [(json.dumps(PAYLOAD), time.time()) for _ in range(number)])
        self._connection.execute("commit")

    def claim_and_complete(self, limit: int) -> int:
        self._connection.execute("begin immediate")
        now = time.time()
        rows = self._connection.execute(CLAIM, ("worker", now + LEASE, now, limit)).fetchall()
        self._connection.execute("commit")
        claimed = [(id, fence, json.loads(payload)) for id, fence, payload in rows]
        if claimed:
            self._connection.execute("begin immediate")
            now = time.time()
            self._connection.executemany(COMPLETE, [(now, id, fence) for id, fence, _ in claimed])
            self._connection.execute("commit")
        return len(claimed)

    def close(self) -> None:
        self._connection.close()
