"""Commands for `tenure exec` to run, and checks of their jobs."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import tenure

STUBBORN = "trap '' TERM; echo > began; while :; do sleep 0.02; done"
WAITING = "trap 'echo TERM >> told; exit 1' TERM; echo > began; while :; do sleep 0.02; done"
OBLIGING = "trap 'exit 0' TERM; echo > began; while :; do sleep 0.02; done"
UNTIL_GO = "echo > began; while [ ! -e go ]; do sleep 0.02; done"


def the_job(jobs: tenure.Jobs) -> tenure.Job:
    (job,) = jobs.find()
    return job


def outcomes(job: tenure.Job) -> list[str]:
    return [str(ending.outcome) for ending in job.history]


def locked(folder: Path) -> Any:
    """Return a block that holds the write lock of the store in this folder."""
    db = sqlite3.connect(folder / "tenure.db", isolation_level=None)
    db.execute("begin immediate")
    return closing(db)
