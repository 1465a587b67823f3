"""One worker, in a process of its own: `python -m tenure.demo.worker FILE NAME`.

It knows nothing of what will be done to it. It says when it is ready, and ends when its standard input does: when its
parent tells it so, or is gone.
"""

import logging
import os
import random
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import tenure
from tenure.demo import receipts

BATCH = 8
LEASE = 1.5
WORK = 0.010, 0.030
"""Seconds that a job takes: from, to."""
PATIENCE = 30.0
"""Seconds to wait for other writers; on a slow disk, with four of them, that can be long."""


def work(jobs: tenure.Jobs, name: str, ended: threading.Event) -> None:
    """Claim and complete, until told to end."""
    while not ended.is_set():
        with jobs.claim(limit=BATCH, lease=LEASE, wait=0.2, worker=name) as claims:
            for claim in claims:
                time.sleep(random.uniform(*WORK))
                complete(claim, name)


def complete(claim: tenure.Claim, name: str) -> None:
    """Write the receipt and complete the job, in one transaction; if the claim is lost, neither happens."""
    with suppress(tenure.ClaimLost), claim.transaction() as db:
        db.execute(receipts.WRITE, receipts.Receipt(claim.id, claim.fence, name))


def main(path: Path, name: str) -> None:
    # Claims that are lost are the subject here, not a surprise to be logged.
    logging.getLogger("tenure").addHandler(logging.NullHandler())
    ended = threading.Event()
    threading.Thread(target=set_at_the_end_of_input, args=(ended,), daemon=True).start()
    with tenure.Jobs(receipts.url_of(path, timeout=PATIENCE)) as jobs:
        jobs.stats()
        print("ready", flush=True)
        work(jobs, name, ended)


def set_at_the_end_of_input(ended: threading.Event) -> None:
    while os.read(0, 1):
        pass
    ended.set()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
