"""The app of this demo, for `tenure work tenure.cli.demo.app:jobs`: one task that knows nothing of what will happen."""

import os
import random
import time
from pathlib import Path

import tenure
from tenure.cli.demo.traces import WRITE, Trace, write_start

STARTS = "TENURE_DEMO_STARTS"
"""The environment variable that names the file of the starts."""
WORK = 0.005, 0.015
"""Seconds that a job takes: from, to."""

jobs = tenure.Jobs()


# A slow machine loses leases by itself; that is not to use up what a job may suffer.
@jobs.task(max_attempts=None, max_crashes=1_000)
def work() -> None:
    """Write a start, and after a moment a receipt; if the claim is lost by then, no receipt."""
    run = tenure.current()
    trace = Trace.of(run.job)
    write_start(Path(os.environ[STARTS]), trace)
    time.sleep(random.uniform(*WORK))
    with run.transaction() as db:
        db.execute(WRITE, trace)
