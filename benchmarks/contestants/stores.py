"""tenure on one of its stores: claims and completes as the worker does, enqueues as a user does."""

import secrets

from benchmarks.contestants.contract import LEASE, PAYLOAD
from tenure import Jobs, NewJob
from tenure.backends.urls import open_backend
from tenure.core.operations import ClaimRequest, Hold
from tenure.core.transitions import build_completion


class StoreQueue:
    def __init__(self, url: str) -> None:
        self._store = open_backend(url)
        self._jobs = Jobs(self._store)

    def enqueue(self) -> None:
        self._jobs.enqueue("work", PAYLOAD)

    def enqueue_many(self, number: int) -> None:
        self._jobs.enqueue_many(NewJob("work", PAYLOAD) for _ in range(number))

    def claim_and_complete(self, limit: int) -> int:
        request = ClaimRequest(worker="worker", token=secrets.token_hex(16), limit=limit, lease=LEASE)
        jobs = self._store.claim(request).jobs
        if jobs:
            holds = [Hold(id=job.id, fence=job.fence, token=request.token) for job in jobs]
            self._store.settle([build_completion(hold) for hold in holds])
        return len(jobs)

    def close(self) -> None:
        self._store.close()
