"""tenure's statements on its own tables, run with plain sqlite3, without the library.

It builds no objects and checks nothing; only the payload is decoded. The difference from tenure is the cost of tenure's
Python code.
"""

import json
import secrets
import sqlite3
import time
from pathlib import Path
from typing import Any

from benchmarks.contestants.contract import LEASE, PAYLOAD
from tenure.backends.sqlite import SQLite
from tenure.backends.sqlite.claim import CLAIM
from tenure.backends.sqlite.connect import Synchronous, connect
from tenure.backends.sqlite.enqueue import ENQUEUE
from tenure.backends.sqlite.lanes import LANES
from tenure.backends.sqlite.settle import SETTLE
from tenure.backends.sqlite.write_transaction import COUNTS

DAY = 86_400_000_000
NAMES = {"queue": "default", "type": "work"}
ALL = {"queues": None, "types": None}


class BareQueue:
    def __init__(self, folder: Path, synchronous: Synchronous) -> None:
        path = folder / "bare.db"
        store = SQLite(path)
        store.stats()
        store.close()
        self._db = connect(path, synchronous, timeout=30, kind=sqlite3.Connection)

    def enqueue(self) -> None:
        self.enqueue_many(1)

    def enqueue_many(self, number: int) -> None:
        self._db.execute("begin immediate")
        now = _now()
        ids = [secrets.token_hex(16) for _ in range(number)]
        self._db.execute(ENQUEUE["stored"], {"ids": json.dumps(ids)}).fetchall()
        ((last,),) = self._db.execute(ENQUEUE["last"]).fetchall()
        jobs = [
            {
                **NAMES,
                "sequence": sequence,
                "id": id,
                "key": None,
                "priority": 0,
                "run_at": now,
                "is_due": 1,
                "max_attempts": 5,
                "max_crashes": 3,
                "timeout": None,
                "meta": None,
                "now": now,
            }
            for sequence, id in enumerate(ids, start=last + 1)
        ]
        payloads = [{"sequence": job["sequence"], "payload": json.dumps(PAYLOAD)} for job in jobs]
        self._db.executemany(ENQUEUE["job"], jobs)
        self._db.executemany(ENQUEUE["payload"], payloads)
        self._count("due = due + :due", "enqueued", number, now)
        self._db.execute("commit")

    def claim_and_complete(self, limit: int) -> int:
        token = secrets.token_hex(16)
        rows = self._claim(limit, token)
        claimed = [(row[0], row[12], json.loads(row[22])) for row in rows]
        if claimed:
            self._complete([id for id, _, _ in claimed])
        return len(claimed)

    def close(self) -> None:
        self._db.close()

    def _claim(self, limit: int, token: str) -> list[tuple[Any, ...]]:
        self._db.execute("begin immediate")
        now = _now()
        self._db.execute(CLAIM["what is to be done first"], {"token": token, "now": now}).fetchall()
        self._db.execute(CLAIM["due lanes"], ALL).fetchall()
        due = self._db.execute(CLAIM["due"], {**NAMES, "limit": limit}).fetchall()
        values = {
            "sequences": json.dumps([sequence for _, _, sequence, _, _ in due]),
            "token": token,
            "worker": "worker",
            "leased_until": now + int(LEASE * 1_000_000),
            "now": now,
        }
        rows = self._db.execute(CLAIM["take"], values).fetchall()
        self._count("due = due - :due, running = running + :due", "claimed", len(rows), now)
        self._db.execute("commit")
        return rows

    def _complete(self, ids: list[str]) -> None:
        self._db.execute("begin immediate")
        now = _now()
        found = self._db.execute(SETTLE["look up"], {"ids": json.dumps(ids)}).fetchall()
        values = [("null", 0, now, sequence) for _, sequence, *_ in found]
        self._db.executemany(SETTLE["complete"], values)
        self._count("running = running - :due, completed = completed + :due", "completed", len(found), now)
        self._db.execute("commit")

    def _count(self, changes: str, event: str, number: int, now: int) -> None:
        values = {**NAMES, "due": number, "scheduled": 0, "running": 0, "completed": 0, "failed": 0, "cancelled": 0}
        if self._db.execute(LANES["change"].format(changes=changes), values).rowcount == 0:
            self._db.execute(LANES["begin"], values)
        minute = now - now % 60_000_000
        self._db.execute(COUNTS["add"], {"minute_at": minute, "queue": "default", "event": event, "number": number})
        self._db.execute(COUNTS["drop old"], {"before": minute - DAY})


def _now() -> int:
    return time.time_ns() // 1_000
