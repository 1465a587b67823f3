"""Ten processes that contend for jobs, one job at a time: the optimistic pattern and tenure's script.

The optimistic pattern is the usual one: read the first job of the queue, watch it, check that it is free, and claim it
in a transaction that fails if another process has changed the job. All processes read the same first job, so most of
them fail and retry. Both contestants decode the claimed job, and complete it in a second round trip.
"""

import json
import multiprocessing
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.queues import Queue as Answers
from multiprocessing.synchronize import Barrier
from time import perf_counter
from typing import Any, Protocol

import redis

from benchmarks.alone import be_quiet
from benchmarks.contestants.contract import LEASE
from benchmarks.redis.apps.tenures import AWAITED
from benchmarks.redis.contract import payload
from benchmarks.redis.server import Server
from benchmarks.redis.store import completions, request
from tenure import Jobs, NewJob
from tenure.backends.urls import open_backend

PROCESSES = 10
PENDING = "pending"
BULK = 1_000
PATIENCE = 60.0


class Taker(Protocol):
    """A contending process, already connected."""

    def fill(self, jobs: int) -> None:
        """Enqueue the number of jobs."""
        ...

    def take(self) -> int:
        """Claim and complete a job; return the number of tries, or 0 if no job is left."""
        ...

    def close(self) -> None: ...


class Watching:
    """WATCH, MULTI and EXEC."""

    def __init__(self, url: str) -> None:
        self._client: Any = redis.Redis.from_url(url)
        self._client.ping()

    def fill(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            with self._client.pipeline() as pipeline:
                for n in range(start, min(start + BULK, jobs)):
                    pipeline.set(f"job:{n}", json.dumps({"state": "queued", "payload": payload(n)}))
                    pipeline.zadd(PENDING, {str(n): n})
                pipeline.execute()

    def take(self) -> int:
        tries = 1
        with self._client.pipeline() as pipeline:
            while first := self._client.zrange(PENDING, 0, 0):
                key = f"job:{int(first[0])}"
                pipeline.watch(key)
                job = json.loads(pipeline.get(key))
                if job["state"] == "queued":
                    taken = {**job, "state": "running", "lease": LEASE}
                    pipeline.multi()
                    pipeline.set(key, json.dumps(taken))
                    pipeline.zrem(PENDING, first[0])
                    try:
                        pipeline.execute()
                    except redis.WatchError:
                        tries += 1
                        continue
                    self._client.set(key, json.dumps({**taken, "state": "completed"}))
                    return tries
                pipeline.unwatch()
                tries += 1
        return 0

    def close(self) -> None:
        self._client.close()


class Claiming:
    """tenure's store: `claim` and `settle`."""

    def __init__(self, url: str) -> None:
        self._store = open_backend(url)
        self._store.workers()

    def fill(self, jobs: int) -> None:
        client = Jobs(self._store)
        for start in range(0, jobs, BULK):
            client.enqueue_many(NewJob(AWAITED, payload(n)) for n in range(start, min(start + BULK, jobs)))

    def take(self) -> int:
        asked = request(1)
        jobs = self._store.claim(asked).jobs
        self._store.settle(completions(jobs, asked.token))
        return len(jobs)

    def close(self) -> None:
        self._store.close()


TAKERS: dict[str, Callable[[str], Taker]] = {"watch": Watching, "tenure": Claiming}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contended:
    """Speed of all processes, tries per job, and the share of each process, smallest first."""

    per_second: float
    tries: float
    shares: list[float]


def contend(name: str, jobs: int, server: Server) -> Contended:
    """Run the jobs in the contending processes."""
    server.empty()
    with closing(TAKERS[name](server.url)) as taker:
        taker.fill(jobs)
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=_take, args=(name, server.url, ready, answers), daemon=True) for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    done = [answers.get(timeout=2 * PATIENCE) for _ in processes]
    for process in processes:
        process.join()
    taken = sum(each.jobs for each in done)
    if taken != jobs:
        raise RuntimeError(f"{name}: of {jobs:,} jobs {taken:,} were taken")
    return Contended(
        per_second=jobs / (max(each.ended_at for each in done) - min(each.started_at for each in done)),
        tries=sum(each.tries for each in done) / jobs,
        shares=sorted(each.jobs / jobs for each in done),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a process."""

    jobs: int
    tries: int
    started_at: float
    ended_at: float


def _take(name: str, url: str, ready: Barrier, answers: "Answers[Done]") -> None:
    be_quiet()
    with closing(TAKERS[name](url)) as taker:
        jobs = tries = 0
        ready.wait(PATIENCE)
        started_at = perf_counter()
        while tried := taker.take():
            jobs += 1
            tries += tried
        answers.put(Done(jobs=jobs, tries=tries, started_at=started_at, ended_at=perf_counter()))
