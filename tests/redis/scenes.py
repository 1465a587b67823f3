"""Scenes with several processes that race, are killed or lose their server: `python -m tests.redis.scenes NAME …`.

Each scene gets the server, the prefix, and a folder for the logs of the processes. It runs in a process without threads
and open connections, and prints its result as JSON; the tests check the keys.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import tenure
from tenure.backends.redis import Redis
from tenure.core import transitions
from tenure.core.job import NewJob
from tenure.core.operations import ClaimRequest, Hold
from tests.playing import LONGEST, fork, one_that_holds, play_in, say_that_one_holds, wait_for
from tests.redis.stores import Place
from tests.redis.witness import Witness

PART = 1_000

PATIENT = NewJob("work", max_attempts=None, max_crashes=1_000)


def play(name: str, place: Place, folder: Path, *arguments: object, timeout: float = LONGEST) -> Any:
    """Run a scene in a new process, and return its output."""
    return play_in("tests.redis.scenes", name, place.server, place.prefix, folder, *arguments, timeout=timeout)


def race(place: Place, witness: Witness, number: str, processes: str) -> object:
    """Run processes that claim and complete all jobs as fast as possible, and log each job."""
    fill(place, int(number))
    return wait_for([fork(partial(take_all, place, witness)) for _ in range(int(processes))])


def take_all(place: Place, witness: Witness) -> None:
    """Claim until no job is left."""
    random.seed(os.getpid())
    store = place.open()
    claimed = store.claim(asked := request())
    while claimed.jobs:
        witness.tell("did", [(job.id, job.fence) for job in claimed.jobs])
        settlements = [transitions.build_completion(hold_of(job, asked)) for job in claimed.jobs]
        landed, claimed = store.exchange(settlements, asked := request())
        assert all(landed)


def storm(place: Place, witness: Witness, number: str, workers: str, kills: str) -> object:
    """Run workers that drain the store; kill random workers, and replace them."""
    random.seed(7)
    fill(place, int(number))
    told, telling = os.pipe()
    alive = {fork(partial(drain, place, witness, telling)) for _ in range(int(workers))}
    killed = 0
    while killed < int(kills):
        time.sleep(random.uniform(0.02, 0.1))
        victim = one_that_holds(told, alive)
        os.kill(victim, signal.SIGKILL)
        killed += wait_for([victim]) == [-signal.SIGKILL]
        alive.remove(victim)
        alive.add(fork(partial(drain, place, witness, telling)))
    return {"killed": killed, "ended": wait_for(sorted(alive))}


def drain(place: Place, witness: Witness, telling: int) -> None:
    """Claim and complete until every job is finished."""
    random.seed(os.getpid())
    with tenure.Jobs(place.url) as jobs:
        while any(row.due or row.running for row in jobs.stats().rows):
            with jobs.claim(limit=random.choice([1, 5, 20]), lease=1, wait=0.2) as claims:
                if claims:
                    say_that_one_holds(telling)
                for claim in claims:
                    time.sleep(random.uniform(0, 0.008))
                    witness.tell("did", [(claim.id, claim.fence)])
                    with suppress(tenure.ClaimLost):
                        claim.complete()


def zombies(place: Place, witness: Witness, number: str) -> object:
    """Freeze processes that hold jobs, finish the jobs elsewhere, and resume the processes; return their results."""
    fill(place, int(number))
    held, holding = os.pipe()
    dawn, night = os.pipe()
    frozen = [fork(partial(hold_until_dawn, place, witness, holding, dawn, night)) for _ in range(int(number))]
    os.close(holding)
    for _ in frozen:
        assert os.read(held, 1) == b"h"
    for each in frozen:
        os.kill(each, signal.SIGSTOP)
        os.waitid(os.P_PID, each, os.WSTOPPED)
    taken = wait_for([fork(partial(take_over, place, witness, number))])
    for each in frozen:
        os.kill(each, signal.SIGCONT)
    os.close(night)
    return {"taken": taken, "frozen": wait_for(frozen)}


def hold_until_dawn(place: Place, witness: Witness, holding: int, dawn: int, night: int) -> None:
    """Hold a job until frozen; after the resume, complete the job."""
    os.close(night)
    with tenure.Jobs(place.url) as jobs, jobs.claim(lease=4) as (claim,):
        witness.tell("did", [(claim.id, claim.fence)])
        os.write(holding, b"h")
        assert os.read(dawn, 1) == b""
        try:
            claim.complete("frozen")
        except tenure.ClaimLost:
            # The claim may detect the loss by its own clock, so ask the store too.
            assert jobs._backend.settle([transitions.build_completion(claim.lease.hold, "frozen")]) == [False]
        else:
            raise AssertionError(f"{claim.id} was completed by one that did not hold it")


def take_over(place: Place, witness: Witness, number: str) -> None:
    """Claim the jobs as their leases expire, and complete them."""
    with tenure.Jobs(place.url) as jobs:
        left = int(number)
        while left:
            for claim in jobs.claim(limit=left, wait=1):
                witness.tell("did", [(claim.id, claim.fence)])
                claim.complete("taken over")
                left -= 1


def load(place: Place, witness: Witness, processes: str) -> object:
    """Run processes that enqueue, claim and complete until the gate opens, and then until no job is left."""
    return wait_for([fork(partial(give_and_take, place, witness)) for _ in range(int(processes))])


def give_and_take(place: Place, witness: Witness) -> None:
    """Do all three in turn without a pause; log everything that the store acknowledges."""
    random.seed(os.getpid())
    store = place.open()
    claimed = store.claim(asked := request())
    for number in count():
        if not witness.gate.exists():
            give(store, witness, number)
        elif not claimed.jobs:
            return
        held = [(job.id, job.fence) for job in claimed.jobs]
        witness.tell("held", held)
        settlements = [transitions.build_completion(hold_of(job, asked)) for job in claimed.jobs]
        landed, claimed = store.exchange(settlements, asked := request())
        assert all(landed)
        witness.tell("completed", held)


def give(store: Redis, witness: Witness, number: int) -> None:
    ids = [f"{os.getpid()}-{number}-{n}" for n in range(random.choice([1, 5]))]
    store.enqueue([PATIENT.record(id) for id in ids])
    witness.tell("enqueued", [(id, 0) for id in ids])


def enqueued_twice(place: Place, _: Witness, number: str, processes: str) -> object:
    """Run processes that enqueue the same ids and keys in different orders; return the number of created jobs."""
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
    with open(told, "rb") as dots:  # noqa: PTH123 - a pipe
        return {"codes": codes, "created": len(dots.read())}


def forked(place: Place, _: Witness) -> object:
    """Use a store before a fork, then in the children and in the parent."""
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


def fill(place: Place, number: int) -> None:
    """Create the store with the number of jobs."""
    store = place.open()
    entries = [PATIENT.record(f"job-{n}") for n in range(number)]
    for start in range(0, number, PART):
        store.enqueue(entries[start : start + PART])
    store.close()


def request() -> ClaimRequest:
    return ClaimRequest(worker=f"pid {os.getpid()}", token=uuid4().hex, limit=random.choice([1, 10, 50]))


def hold_of(job: tenure.Job, asked: ClaimRequest) -> Hold:
    return Hold(id=job.id, fence=job.fence, token=asked.token)


SCENES: dict[str, Callable[..., object]] = {
    each.__name__: each for each in (race, storm, zombies, load, enqueued_twice, forked)
}

if __name__ == "__main__":
    name, server, prefix, folder, *arguments = sys.argv[1:]
    print(json.dumps(SCENES[name](Place(server, prefix), Witness(Path(folder)), *arguments)))
