"""Scenes with separate processes that race, are killed, frozen or forked: `python -m tests.postgres.scenes NAME …`.

A scene gets the server and the schema, runs in a process without threads or open connections, and prints its
observations as JSON; the tests check the tables.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg

import tenure
from tenure.client import settling
from tenure.core import transitions
from tenure.core.job import NewJob
from tenure.core.operations import BUSY, ClaimRequest, Hold
from tests.playing import LONGEST, fork, one_that_holds, play_in, say_that_one_holds, wait_for
from tests.postgres.stores import Place

PART = 1_000

TABLE = "create table S.effects (job text primary key, fence bigint not null, writes integer not null default 1)"
WRITE = """
    insert into S.effects as mine (job, fence)
    values (%s, %s)
    on conflict (job) do update
    set fence = excluded.fence, writes = mine.writes + 1
    where mine.fence < excluded.fence
"""
"""A fenced write as in user code: a write of an earlier claim has no effect."""

Write = Callable[[Sequence[tuple[str, int]]], None]


def play(name: str, place: Place, *arguments: object, timeout: float = LONGEST) -> Any:
    """Run a scene in a new process, and return its output."""
    return play_in("tests.postgres.scenes", name, place.server, place.schema, *arguments, timeout=timeout)


def race(place: Place, number: str, processes: str) -> object:
    """Let processes claim and complete all jobs as fast as possible, and write an effect for each."""
    fill(place, int(number))
    return wait_for([fork(partial(take_all, place)) for _ in range(int(processes))])


def take_all(place: Place) -> None:
    """Claim until no job is left; at times without the hint of the last claim."""
    random.seed(os.getpid())
    store = place.open()
    hint: object = None
    with effects(place) as write:
        claimed = store.claim(asked := request())
        while claimed.jobs:
            write([(job.id, job.fence) for job in claimed.jobs])
            settlements = [transitions.build_completion(hold_of(job, asked)) for job in claimed.jobs]
            hint = random.choice([None, claimed.hint])
            settled, claimed = store.exchange(settlements, asked := request(hint=hint))
            busy = [settlement for settlement, each in zip(settlements, settled, strict=True) if each is BUSY]
            assert all(each for each in settled if each is not BUSY)
            assert all(settling.settle(store, busy))


def storm(place: Place, number: str, workers: str, kills: str) -> object:
    """Let workers drain the store while random workers are killed and replaced."""
    random.seed(7)
    fill(place, int(number))
    told, telling = os.pipe()
    alive = {fork(partial(drain, place, telling)) for _ in range(int(workers))}
    killed = 0
    while killed < int(kills):
        time.sleep(random.uniform(0.02, 0.1))
        victim = one_that_holds(told, alive)
        os.kill(victim, signal.SIGKILL)
        killed += wait_for([victim]) == [-signal.SIGKILL]
        alive.remove(victim)
        alive.add(fork(partial(drain, place, telling)))
    return {"killed": killed, "ended": wait_for(sorted(alive))}


def drain(place: Place, telling: int) -> None:
    """Claim, write and complete until every job is finished, in any state."""
    random.seed(os.getpid())
    with tenure.Jobs(place.url) as jobs, effects(place) as write:
        while any(row.due or row.running for row in jobs.stats().rows):
            with jobs.claim(limit=random.choice([1, 5, 20]), lease=1, wait=0.2) as claims:
                if claims:
                    say_that_one_holds(telling)
                for claim in claims:
                    time.sleep(random.uniform(0, 0.008))
                    write([(claim.id, claim.fence)])
                    with suppress(tenure.ClaimLost):
                        claim.complete()


def zombies(place: Place, number: str) -> object:
    """Freeze processes that hold jobs, finish the jobs elsewhere, wake the processes, and report their results."""
    fill(place, int(number))
    held, holding = os.pipe()
    dawn, night = os.pipe()
    frozen = [fork(partial(hold_until_dawn, place, holding, dawn, night)) for _ in range(int(number))]
    os.close(holding)
    for _ in frozen:
        assert os.read(held, 1) == b"h"
    for each in frozen:
        os.kill(each, signal.SIGSTOP)
        os.waitid(os.P_PID, each, os.WSTOPPED)
    taken = wait_for([fork(partial(take_over, place, number))])
    for each in frozen:
        os.kill(each, signal.SIGCONT)
    os.close(night)
    return {"taken": taken, "frozen": wait_for(frozen)}


def hold_until_dawn(place: Place, holding: int, dawn: int, night: int) -> None:
    """Hold a job until frozen; after waking, write and complete it as if no time had passed."""
    os.close(night)
    with tenure.Jobs(place.url) as jobs, jobs.claim(lease=4) as (claim,), effects(place) as write:
        os.write(holding, b"h")
        assert os.read(dawn, 1) == b""
        write([(claim.id, claim.fence)])
        try:
            claim.complete("frozen")
        except tenure.ClaimLost:
            # The claim may detect the loss by its own clock, so ask the store as well.
            assert jobs._backend.settle([transitions.build_completion(claim.lease.hold, "frozen")]) == [False]
        else:
            raise AssertionError(f"{claim.id} was completed by one that did not hold it")


def take_over(place: Place, number: str) -> None:
    """Claim the jobs as their leases expire, and complete them."""
    with tenure.Jobs(place.url) as jobs, effects(place) as write:
        left = int(number)
        while left:
            for claim in jobs.claim(limit=left, wait=1):
                write([(claim.id, claim.fence)])
                claim.complete("taken over")
                left -= 1


def opened_at_once(place: Place, number: str) -> object:
    """Let processes open a new schema at the same time, and enqueue a job each."""
    starts_at = time.monotonic() + 0.3

    def act(n: int) -> None:
        while time.monotonic() < starts_at:
            pass
        place.open().enqueue([NewJob("work").record(f"job-{n}")])

    return wait_for([fork(partial(act, n)) for n in range(int(number))])


def enqueued_twice(place: Place, number: str, processes: str) -> object:
    """Let processes enqueue jobs with the same ids and keys, each in a different order; report the numbers."""
    place.open().migrate()
    told, telling = os.pipe()

    def act() -> None:
        random.seed(os.getpid())
        ids = [NewJob("work").record(f"job-{n}") for n in range(int(number))]
        keys = [NewJob("work", key=f"key-{n}").record(uuid4().hex) for n in range(int(number))]
        entries = random.sample(ids + keys, k=2 * int(number))
        store = place.open()
        for start in range(0, len(entries), 20):
            enqueued = store.enqueue(entries[start : start + 20])
            os.write(telling, b"." * sum(each.created for each in enqueued))

    codes = wait_for([fork(act) for _ in range(int(processes))])
    os.close(telling)
    with open(told, "rb") as dots:  # noqa: PTH123 - it is a pipe
        return {"codes": codes, "created": len(dots.read())}


def forked(place: Place) -> object:
    """Use a store before a fork, then in the children and in the parent at the same time."""
    jobs = tenure.Jobs(place.url)
    jobs.enqueue("work", id="before")
    (claim,) = jobs.claim(lease=60)

    def act(n: int) -> None:
        jobs.enqueue("work", id=f"child-{n}")
        for _ in range(2):
            with jobs.claim(queues="by child", wait=1) as claims:
                for each in claims:
                    each.complete("by child")

    children = []
    with used_by_threads(jobs):
        for n in range(5):
            jobs.enqueue_many(NewJob("work", queue="by child") for _ in range(2))
            children.append(fork(partial(act, n)))
            jobs.enqueue("work", id=f"parent-{n}")
        codes = wait_for(children)
    claim.complete()
    found = sorted(job.id for job in jobs.find(queue="default"))
    states = [job.state for job in jobs.find(queue="by child")]
    jobs.close()
    return {"codes": codes, "found": found, "states": states}


@contextmanager
def used_by_threads(jobs: tenure.Jobs) -> Iterator[None]:
    """Run a thread that reads all the time, and a thread that waits for jobs."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.001):
            jobs.stats()

    def wait() -> None:
        while not ended.is_set():
            jobs.claim(queues="nothing here", wait=0.05)

    threads = [threading.Thread(target=each) for each in (look, wait)]
    for thread in threads:
        thread.start()
    yield
    ended.set()
    for thread in threads:
        thread.join()


def fill(place: Place, number: int) -> None:
    """Create the store with a number of jobs, and a table for effects."""
    store = place.open()
    patient = NewJob("work", max_attempts=None, max_crashes=1_000)
    entries = [patient.record(f"job-{n}") for n in range(number)]
    for start in range(0, number, PART):
        store.enqueue(entries[start : start + PART])
    store.close()
    place.execute(TABLE)


@contextmanager
def effects(place: Place) -> Iterator[Write]:
    """Yield a function that writes effects over a separate connection."""
    text = WRITE.replace("S.", f"{place.schema}.").encode()
    with psycopg.connect(place.server, autocommit=True) as connection, connection.cursor() as cursor:
        yield partial(cursor.executemany, text)


def request(**options: Any) -> ClaimRequest:
    told = {"limit": random.choice([1, 10, 50]), **options}
    return ClaimRequest(worker=f"pid {os.getpid()}", token=uuid4().hex, **told)


def hold_of(job: tenure.Job, asked: ClaimRequest) -> Hold:
    return Hold(id=job.id, fence=job.fence, token=asked.token)


SCENES: dict[str, Callable[..., object]] = {
    each.__name__: each for each in (race, storm, zombies, opened_at_once, enqueued_twice, forked)
}

if __name__ == "__main__":
    name, server, schema, *arguments = sys.argv[1:]
    print(json.dumps(SCENES[name](Place(server, schema), *arguments)))
