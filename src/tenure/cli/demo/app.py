"""The app of the demo, for `tenure work tenure.cli.demo.app:jobs`: one ordinary task."""

import os
import random
import time
from pathlib import Path

import tenure
from tenure.cli.demo.traces import INSERT_RECEIPT, Trace, write_start

STARTS_VARIABLE = "TENURE_DEMO_STARTS"
"""Environment variable with the path of the file of starts."""
JOB_DURATION = 0.005, 0.015
"""Shortest and longest duration of a job, in seconds."""

jobs = tenure.Jobs()


# Leases also expire on a slow machine; such crashes must not fail a job.
@jobs.task(max_attempts=None, max_crashes=1_000)
def work() -> None:
    """Write a start, then a receipt. If the claim is lost meanwhile, no receipt is written."""
    run = tenure.current()
    trace = Trace.of(run.job)
    write_start(Path(os.environ[STARTS_VARIABLE]), trace)
    time.sleep(random.uniform(*JOB_DURATION))
    with run.transaction() as db:
        db.execute(INSERT_RECEIPT, trace)
