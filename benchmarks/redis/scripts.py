"""Every operation at its limit: how long its script blocks the server.

While a script runs, the server handles no other request. So any client may have to wait for the longest script.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from benchmarks.redis.apps.tenures import AWAITED
from benchmarks.redis.contract import payload
from benchmarks.redis.server import Server
from benchmarks.redis.stopwatch import ScriptTime, Stopwatch, stopwatch
from benchmarks.redis.store import completions, request
from tenure import NewJob
from tenure.backends.protocol import SCAN, Backend
from tenure.backends.urls import open_backend
from tenure.client.identity import new_id
from tenure.core.backoff import Backoff
from tenure.core.job import Job, JobRecord
from tenure.core.operations import (
    COUNTS_KEPT,
    LARGEST_BATCH,
    LARGEST_ENQUEUE,
    SHORTEST_LEASE,
    Extension,
    Hold,
    Move,
    Purge,
    Query,
)
from tenure.core.transitions import build_failure

SOON = 1.5
"""Seconds after which scheduled jobs are due and leases have expired."""
LONGER = 120.0
ERROR = "Traceback (most recent call last):\n" + '  File "app.py", line 12, in work\n    raise Refused(order)\n' * 10
QUEUES, TYPES = 10, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The claims of a request."""

    token: str
    jobs: list[Job]

    def holds(self) -> list[Hold]:
        return [Hold(id=job.id, fence=job.fence, token=self.token) for job in self.jobs]


def script_times(server: Server, *, size: int, repeats: int) -> list[ScriptTime]:
    """Measure every operation `repeats` times, with batches of `size` jobs, at most `LARGEST_BATCH`."""
    server.empty()
    with stopwatch(server) as watch, closing(open_backend(server.url)) as store:
        operations = Operations(watch, store, size, repeats)
        groups = (
            operations.entering(),
            operations.holding(),
            operations.sweeping(),
            operations.moving(),
            operations.looking(),
            operations.forgetting(),
        )
        return [each for group in groups for each in group]


class Operations:
    """All operations, in groups that leave enough jobs for the next groups."""

    def __init__(self, watch: Stopwatch, store: Backend, size: int, repeats: int) -> None:
        self._watch = watch
        self._store = store
        self._size = size
        self._times = range(repeats)

    def entering(self) -> Iterator[ScriptTime]:
        for size in (self._size, self._size * LARGEST_ENQUEUE // LARGEST_BATCH):
            given = [(entries(size),) for _ in self._times]
            yield self._watch.time(f"enqueue {size:,}", self._store.enqueue, given)

    def holding(self) -> Iterator[ScriptTime]:
        size, taken = self._size, []
        yield self._watch.time(f"claim {size:,}", lambda: taken.append(self._claimed()), [()] * len(self._times))
        given = [([Extension(hold=hold, lease=LONGER) for hold in batch.holds()],) for batch in taken]
        yield self._watch.time(f"extend {size:,}", self._store.extend, given)
        endings = [completions(batch.jobs, batch.token) for batch in taken]
        yield self._watch.time(f"settle {size:,}, completed", self._store.settle, [(each,) for each in endings])
        endings = [
            [
                build_failure(hold, job, ERROR, final=True, backoff=Backoff(), random=lambda: 0.0)
                for hold, job in zip(batch.holds(), batch.jobs, strict=True)
            ]
            for batch in self._batches()
        ]
        yield self._watch.time(f"settle {size:,}, failed", self._store.settle, [(each,) for each in endings])
        exchanges = [(completions(batch.jobs, batch.token), request(size)) for batch in self._batches()]
        yield self._watch.time(f"exchange {size:,} + {size:,}", self._store.exchange, exchanges)

    def sweeping(self) -> Iterator[ScriptTime]:
        """Wait until leases have expired and jobs are due: the next claim reaps and promotes them."""
        size = self._size
        self._let_run_out()
        time.sleep(SOON)
        yield self._watch.time(f"reap {size:,}", self._store.reap, [(size,) for _ in self._times])
        self._let_come_due()
        time.sleep(SOON)
        given = [(request(1),) for _ in self._times]
        yield self._watch.time(f"claim 1, {size:,} promoted", self._store.claim, given)
        self._let_come_due()
        self._let_run_out()
        time.sleep(SOON)
        given = [(request(size),) for _ in self._times]
        yield self._watch.time(f"claim {size:,}, as many promoted and reaped", self._store.claim, given)

    def moving(self) -> Iterator[ScriptTime]:
        batches = [[each.id for each in self._store.enqueue(entries(self._size))] for _ in self._times]
        for move in (Move.CANCEL, Move.RETRY):
            yield self._watch.time(f"{move} {self._size:,}", self._store.move, [(ids, move) for ids in batches])

    def looking(self) -> Iterator[ScriptTime]:
        size = self._size
        self._store.enqueue(
            [
                NewJob(f"type {type}", payload(type), queue=f"queue {queue}").record(new_id())
                for queue in range(QUEUES)
                for type in range(TYPES)
            ]
        )
        yield self._watch.time(f"find {size:,}", self._store.find, [(Query(limit=size),) for _ in self._times])
        nothing = Query(error="nowhere")
        yield self._watch.time(f"find nothing in {SCAN:,}", self._store.find, [(nothing,) for _ in self._times])
        yield self._watch.time(f"stats of {QUEUES * TYPES} types", self._store.stats, [()] * len(self._times))
        yield self._watch.time("counts of a day", self._store.counts, [(COUNTS_KEPT,) for _ in self._times])

    def forgetting(self) -> Iterator[ScriptTime]:
        size = self._size
        yield self._watch.time(f"delete {size:,}", self._store.delete, [(ids,) for ids in self._completed()])
        self._completed()
        given = [(Purge(older_than=0, limit=size),) for _ in self._times]
        yield self._watch.time(f"purge {size:,}", self._store.purge, given)

    def _claimed(self, lease: float = LONGER) -> Batch:
        asked = request(self._size, lease=lease)
        return Batch(token=asked.token, jobs=self._store.claim(asked).jobs)

    def _batches(self) -> list[Batch]:
        return [self._claimed() for _ in self._times]

    def _completed(self) -> list[list[str]]:
        """Return the ids of completed batches."""
        batches = self._batches()
        for batch in batches:
            self._store.settle(completions(batch.jobs, batch.token))
        return [[job.id for job in batch.jobs] for batch in batches]

    def _let_run_out(self) -> None:
        for _ in self._times:
            self._claimed(SHORTEST_LEASE)

    def _let_come_due(self) -> None:
        for _ in self._times:
            self._store.enqueue(entries(self._size, delay=SOON / 2))


def entries(number: int, *, type: str = AWAITED, priority: int = 0, delay: float = 0.0) -> list[JobRecord]:
    """Return new jobs in the form that a store accepts."""
    return [NewJob(type, payload(n), priority=priority, delay=delay).record(new_id()) for n in range(number)]
