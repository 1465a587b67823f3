"""Scenes for separate processes that are killed or forked: `python -m tests.sqlite.scenes NAME FILE …`.

A scene runs in a process without threads and open files, so that it may fork. It prints its observations as JSON; the
tests check the file.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.playing import LONGEST, Interrupts, fork, one_that_holds, play_in, say_that_one_holds, wait_for

import tenure
from tenure.backends.sqlite import SQLite
from tenure.core import transitions
from tenure.core.job import NewJob
from tenure.core.operations import ClaimRequest, Hold, Query


def play(name: str, path: Path, *arguments: object, timeout: float = LONGEST) -> Any:
    """Run a scene in a new process, and return its output."""
    return play_in("tests.sqlite.scenes", name, path, *arguments, timeout=timeout)


def storm(path: str, number: str, workers: str, kills: str) -> object:
    """Run workers that drain the store; repeatedly kill a random worker and replace it."""
    random.seed(7)
    store = SQLite(path)
    for start in range(0, int(number), 1_000):
        size = min(1_000, int(number) - start)
        patient = NewJob("work", max_attempts=None, max_crashes=1_000)
        store.enqueue([patient.record(f"job-{start + n}") for n in range(size)])
    store.close()
    told, telling = os.pipe()
    alive = {fork(lambda: drain(path, telling)) for _ in range(int(workers))}
    killed = 0
    while killed < int(kills):
        time.sleep(random.uniform(0.02, 0.1))
        victim = one_that_holds(told, alive)
        os.kill(victim, signal.SIGKILL)
        killed += wait_for([victim]) == [-signal.SIGKILL]
        alive.remove(victim)
        alive.add(fork(lambda: drain(path, telling)))
    return {"killed": killed, "ended": wait_for(sorted(alive))}


def drain(path: str, telling: int) -> None:
    """Claim and complete jobs until all jobs are finished."""
    random.seed(os.getpid())
    with tenure.Jobs(f"sqlite:///{path}?timeout=60") as jobs:
        while any(row.due or row.running for row in jobs.stats().rows):
            with jobs.claim(limit=random.choice([1, 5, 20]), lease=1, wait=0.2) as claims:
                if claims:
                    say_that_one_holds(telling)
                for claim in claims:
                    time.sleep(random.uniform(0, 0.008))
                    # On a busy machine the lease of one second may expire.
                    with suppress(tenure.ClaimLost):
                        end(claim)


def end(claim: tenure.Claim) -> None:
    """Complete the claim, with or without an effect."""
    if random.random() < 0.5:
        claim.complete()
        return
    with claim.transaction() as db:
        db.execute("create table if not exists receipts (job text primary key, fence integer)")
        db.execute("insert into receipts values (?, ?)", (claim.id, claim.fence))


def killed_at_each_statement(path: str) -> object:
    """Kill a process before each statement of each operation in turn; return the content of the file."""
    seen: list[tuple[str, int, str]] = []
    for name in OPERATIONS:
        number = 1
        while True:
            file = f"{path}-{name}-{number}"
            (code,) = wait_for([fork(partial(die_at, file, name, number))])
            seen.append((name, number, state_of(file)))
            if code == 0:
                break
            number += 1
    return seen


def die_at(path: str, name: str, number: int) -> None:
    store, hold = prepared(path)
    count = 0

    def trace(_: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    assert store.database._writer is not None
    store.database._writer.db.set_trace_callback(trace)
    OPERATIONS[name](store, hold)


def prepared(path: str) -> tuple[SQLite, Hold]:
    """Return a store with one job held and one due."""
    store = SQLite(path, synchronous="normal")
    store.enqueue([NewJob("work").record("held")])
    (job,) = store.claim(request("first")).jobs
    store.enqueue([NewJob("work").record("due")])
    return store, Hold(id="held", fence=job.fence, token="first")


def request(token: str) -> ClaimRequest:
    return ClaimRequest(worker="w", token=token, limit=9)


def failed(store: SQLite, hold: Hold) -> Any:
    (job,) = [job for job in store.claim(request("first")).jobs if job.id == hold.id]
    return transitions.build_failure(hold, job, "broken", backoff=tenure.Backoff(), random=random.random)


OPERATIONS: dict[str, Callable[[SQLite, Hold], object]] = {
    "enqueue": lambda store, _: store.enqueue([NewJob("work", {"n": n}).record(f"new-{n}") for n in range(3)]),
    "claim": lambda store, _: store.claim(request("second")),
    "complete": lambda store, hold: store.settle([transitions.build_completion(hold, {"done": True})]),
    "fail": lambda store, hold: store.settle([failed(store, hold)]),
    "exchange": lambda store, hold: store.exchange([transitions.build_completion(hold, 1)], request("second")),
}


def state_of(path: str) -> str:
    """Return the content of the file as comparable text."""
    store = SQLite(path)
    jobs = sorted(store.find(Query()).jobs, key=lambda job: job.id)
    (row,) = store.stats().rows
    counts = sorted((count.event.value, count.number) for count in store.counts(86_400))
    store.close()
    return json.dumps(
        [
            [[job.id, job.state, job.fence, job.attempts, job.worker, job.result, len(job.history)] for job in jobs],
            [row.due + row.scheduled, row.running, row.completed],
            counts,
        ]
    )


def opened_at_once(path: str, number: str) -> object:
    """Open a new file from several processes at the same instant, and enqueue a job in each process."""
    starts_at = time.monotonic() + 0.3

    def act(n: int) -> None:
        while time.monotonic() < starts_at:
            pass
        SQLite(path, timeout=60).enqueue([NewJob("work").record(f"job-{n}")])

    return wait_for([fork(partial(act, n)) for n in range(int(number))])


def shares(path: str, workers: str, seconds: str) -> object:
    """Write from several processes as fast as possible, once all are ready; return the writes of each process."""
    store = SQLite(path)
    store.enqueue([NewJob("work").record("first")])
    store.close()
    folder = Path(path).parent
    heard, telling = os.pipe()
    start, wait = os.pipe()

    def write(n: int) -> None:
        os.close(wait)
        store = SQLite(path, timeout=60)
        store.stats()
        os.write(telling, b"r")
        assert os.read(start, 1) == b""
        ends_at, done = time.monotonic() + float(seconds), 0
        while time.monotonic() < ends_at:
            store.enqueue([NewJob("work").record(f"{n}-{done}")])
            done += 1
        (folder / f"done-{n}").write_text(str(done))

    children = [fork(partial(write, n)) for n in range(int(workers))]
    for _ in children:
        assert os.read(heard, 1) == b"r"
    os.close(wait)
    codes = wait_for(children)
    assert codes == [0] * int(workers)
    return [int((folder / f"done-{n}").read_text()) for n in range(int(workers))]


def forked(path: str) -> object:
    """Use a store before a fork, in the children, in the parent meanwhile, and in a thread."""
    jobs = tenure.Jobs(f"sqlite:///{path}?timeout=60")
    jobs.enqueue("work", id="before")
    (claim,) = jobs.claim(lease=60)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.001):
            jobs.stats()

    def act(n: int) -> None:
        jobs.enqueue("work", id=f"child-{n}")
        with jobs.claim(queues="by child", limit=1) as claims:
            for each in claims:
                with each:
                    each.result = "by child"
        (mine,) = jobs.claim(queues="by child", limit=1)
        with mine.transaction() as connection:
            connection.execute("create table if not exists receipts (job text)")
            connection.execute("insert into receipts values (?)", (mine.id,))

    looking = threading.Thread(target=look)
    looking.start()
    children = []
    for n in range(5):
        jobs.enqueue_many(tenure.NewJob("work", queue="by child") for _ in range(2))
        children.append(fork(partial(act, n)))
        jobs.enqueue("work", id=f"parent-{n}")
    codes = wait_for(children)
    ended.set()
    looking.join()
    claim.complete()
    found = sorted(job.id for job in jobs.find(queue="default"))
    states = [job.state for job in jobs.find(queue="by child")]
    jobs.close()
    return {"codes": codes, "found": found, "states": states}


def forked_in_a_transaction(path: str) -> object:
    """Fork inside a block: the child gets an error when it uses the store, and the parent continues."""
    jobs = tenure.Jobs(f"sqlite:///{path}?timeout=0.2")
    jobs.enqueue("work", id="job")
    (claim,) = jobs.claim()
    told = Path(f"{path}-told")

    def use() -> None:
        for action in (lambda: jobs.enqueue("work"), lambda: jobs.get("job")):
            try:
                action()
            except tenure.StoreUnavailable as exc:
                told.write_text(str(exc))
            else:
                told.write_text("")

    ours = os.getpid()
    children = []
    left = ""
    try:
        with claim.transaction() as db:
            db.execute("create table receipts (job text)")
            children.append(fork(use))
            if not (child := os.fork()):
                time.sleep(0.2)
                db.execute("insert into receipts values ('of the child')")
            children.append(child)
            if os.getpid() == ours:
                db.execute("insert into receipts values ('job')")
    except tenure.ClaimLost as exc:
        left = str(exc)
    if os.getpid() != ours:
        sys.exit(0 if "forked" in left else 1)
    jobs.enqueue_many(tenure.NewJob("work") for _ in range(300))
    codes = wait_for(children)
    job = jobs.get("job")
    due = jobs.stats().total("due")
    jobs.close()
    return {"codes": codes, "told": told.read_text(), "state": None if job is None else job.state, "due": due}


def interrupted(path: str, number: str) -> object:
    """Raise KeyboardInterrupt at random times in many operations; then check that all handles still work."""
    random.seed(3)
    jobs = tenure.Jobs(f"sqlite:///{path}?timeout=60&synchronous=normal")
    jobs.enqueue("work")
    interrupts = Interrupts()
    signal.signal(signal.SIGALRM, interrupts)
    while interrupts.raised < int(number):
        before = interrupts.raised
        with suppress(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.004))
            # Python drops exceptions raised during garbage collection.
            while interrupts.raised == before:
                jobs.enqueue("work")
                jobs.stats()
                for claim in jobs.claim(limit=2):
                    with claim.transaction() as connection:
                        connection.execute("create table if not exists receipts (job text)")
                        connection.execute("insert into receipts values (?)", (claim.id,))
    jobs.enqueue("work", id="mine")
    others = wait_for([fork(lambda: SQLite(path, timeout=60).enqueue([NewJob("work").record("another's")]))])
    thread = threading.Thread(target=jobs.enqueue, args=("work",), kwargs={"id": "a thread's"}, daemon=True)
    thread.start()
    thread.join(120)
    found = {job.id for job in jobs.find()}
    jobs.close()
    return {"others": others, "found": {"mine", "another's", "a thread's"} <= found}


def out_of_room(path: str) -> object:
    """Stop the file from growing in the middle of a request; then allow it again."""
    import resource

    store = SQLite(path)
    store.enqueue([NewJob("work").record("first")])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{path}-wal").stat().st_size + 5_000, before[1]))
    told = ""
    try:
        store.enqueue([NewJob("work", {"text": "x" * 1_000}).record(f"job-{n}") for n in range(1_000)])
    except tenure.StoreUnavailable as exc:
        told = str(exc)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    store.enqueue([NewJob("work").record("later")])
    return {"told": told, "found": sorted(job.id for job in store.find(Query()).jobs)}


def read_only(path: str) -> object:
    """Use a file without, then with, permission to write."""
    store = SQLite(path)
    store.enqueue([NewJob("work").record("first")])
    store.close()
    told = Path(f"{path}-told")
    told.touch()
    told.chmod(0o666)
    Path(path).chmod(0o444)

    def try_it() -> None:
        if os.getuid() == 0:
            Path(path).parent.chmod(0o755)
            os.setuid(65534)
        try:
            SQLite(path).enqueue([NewJob("work").record("refused")])
        except tenure.StoreUnavailable as exc:
            told.write_text(str(exc))

    wait_for([fork(try_it)])
    Path(path).chmod(0o644)
    store.enqueue([NewJob("work").record("later")])
    return {"told": told.read_text(), "found": sorted(job.id for job in store.find(Query()).jobs)}


SCENES: dict[str, Callable[..., object]] = {
    each.__name__: each
    for each in (
        storm,
        killed_at_each_statement,
        opened_at_once,
        shares,
        forked,
        forked_in_a_transaction,
        interrupted,
        out_of_room,
        read_only,
    )
}

if __name__ == "__main__":
    print(json.dumps(SCENES[sys.argv[1]](*sys.argv[2:])))
