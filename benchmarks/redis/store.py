"""The store without a worker: `exchange` completes a batch and claims the next. No handler runs.

The loop decodes the payload and records the number, as a task does.
"""

import secrets
import sys
import time
from collections.abc import Sequence

from benchmarks.contestants.contract import LEASE
from benchmarks.redis.apps.environment import noting, url
from benchmarks.redis.apps.tenures import AWAITED
from benchmarks.redis.raw import PAUSE
from tenure.backends.protocol import Backend
from tenure.backends.urls import open_backend
from tenure.core.job import Job
from tenure.core.operations import ClaimRequest, Hold, Settlement
from tenure.core.transitions import build_completion


def request(limit: int, hint: object = None, *, lease: float = LEASE) -> ClaimRequest:
    """Return a claim request with a new token."""
    return ClaimRequest(
        types=(AWAITED,), limit=limit, lease=lease, worker="worker", token=secrets.token_hex(16), hint=hint
    )


def completions(jobs: Sequence[Job], token: str) -> list[Settlement]:
    return [build_completion(Hold(id=job.id, fence=job.fence, token=token)) for job in jobs]


def work(store: Backend, batch: int) -> None:
    """Run due jobs until the process is stopped."""
    note = noting()
    settlements: list[Settlement] = []
    hint = None
    while True:
        asked = request(batch, hint)
        _, claimed = store.exchange(settlements, asked)
        for job in claimed.jobs:
            note(job.payload["n"])
        settlements = completions(claimed.jobs, asked.token)
        hint = claimed.hint if len(claimed.jobs) == batch else None
        if not claimed.jobs:
            time.sleep(PAUSE)


if __name__ == "__main__":
    work(open_backend(url()), int(sys.argv[1]))
