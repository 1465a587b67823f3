"""Read facts from a file after a scene, for comparison with the expected invariants."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import tenure

NUMBERS = """
    select queue, type, due, scheduled, running, completed, failed, cancelled
    from tenure_lanes
    order by queue, type
"""
COUNTED = """
    select
      queue,
      type,
      sum(is_due),
      sum(state = 'queued' and is_due = 0),
      sum(state = 'running'),
      sum(state = 'completed'),
      sum(state = 'failed'),
      sum(state = 'cancelled')
    from tenure_jobs
    group by queue, type
    order by queue, type
"""
UNPAIRED = """
    select
      (select count(*) from tenure_jobs where sequence not in (select job from tenure_payloads))
      + (select count(*) from tenure_payloads where job not in (select sequence from tenure_jobs))
      + (select count(*) from tenure_history where job not in (select sequence from tenure_jobs))
"""


def verdict(path: Path) -> dict[str, Any]:
    """Return the facts."""
    happened = Counter[str]()
    with tenure.Jobs(f"sqlite:///{path}") as jobs:
        states = Counter(str(job.state) for job in jobs.find())
        for count in jobs.counts(since=86_400):
            happened[count.event.value] += count.number
    with closing(sqlite3.connect(path)) as db:
        return {
            "states": dict(states),
            "happened": dict(happened),
            "integrity": db.execute("pragma integrity_check").fetchone()[0],
            "numbers are true": db.execute(NUMBERS).fetchall() == db.execute(COUNTED).fetchall(),
            "unpaired rows": db.execute(UNPAIRED).fetchone()[0],
            "crashes": db.execute("select sum(crashes) from tenure_jobs").fetchone()[0],
        }


def effects(path: Path) -> dict[str, Any]:
    """Return the facts about the receipts that `drain` writes in its transactions."""
    with closing(sqlite3.connect(path)) as db:
        (number,) = db.execute("select count(*) from receipts").fetchone()
        (stale,) = db.execute(
            "select count(*) from receipts r join tenure_jobs j on j.id = r.job where r.fence <> j.fence"
        ).fetchone()
    return {"receipts": number, "of another claim than the one that completed": stale}
