"""Scenes with worker processes: `python -m tests.processes.scenes NAME FOLDER …`.

Each prints what it saw as JSON; the tests look at the store and at what the handlers told.
"""

import json
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import tenure
from tests.processes.crew import ROOT, crew_on
from tests.processes.stage import Stage, until
from tests.processes.tasks import add_tasks
from tests.sqlite.scenes import fork, wait_for

WORKERS = 3
AT_ONCE = 4
FIRST = 1_000
"""How many jobs are there before the first worker is replaced; the others come in with each one that is."""


def play(name: str, stage: Stage, *arguments: object, timeout: float = 110.0) -> Any:
    """Play a scene in a new process, and return what it printed."""
    command = [sys.executable, "-m", "tests.processes.scenes", name, str(stage.folder), *map(str, arguments)]
    # A group of its own: if the scene does not end, neither do its workers.
    played = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        printed, errors = played.communicate(timeout=timeout)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(played.pid, signal.SIGKILL)
    assert played.returncode == 0, errors[-3000:]
    return json.loads(printed)


def work(folder: str, options: str) -> object:
    """Be one worker, and tell what was done."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    told = json.loads(options)
    stage = Stage(Path(folder))
    with stage.jobs(timeout=told.pop("timeout", 30.0)) as jobs:
        add_tasks(jobs, stage)
        return asdict(jobs.work(**told))


def restarts(folder: str, number: str, times: str) -> object:
    """Replace one worker after the other while jobs come in: start a new one, and tell the oldest to end."""
    stage = Stage(Path(folder))
    codes = []
    with stage.jobs() as jobs:
        give_load(jobs, FIRST)
        crew = deque(started(stage, lease=60) for _ in range(WORKERS))
        for size in parts(int(number) - FIRST, int(times)):
            give_load(jobs, size)
            crew.append(started(stage, lease=60))
            oldest = crew.popleft()
            os.kill(oldest, signal.SIGTERM)
            codes += wait_for([oldest])
        until(lambda: is_all_done(jobs))
    return {"restarted": codes, "ended": told_to_end(list(crew))}


def kills(folder: str, number: str, times: str) -> object:
    """Kill a worker at random again and again while jobs come in; each killed one is replaced."""
    random.seed(7)
    stage = Stage(Path(folder))
    codes = []
    with stage.jobs() as jobs:
        give_load(jobs, FIRST)
        crew = [started(stage, lease=1) for _ in range(WORKERS)]
        for size in parts(int(number) - FIRST, int(times)):
            give_load(jobs, size)
            time.sleep(random.uniform(0, 0.1))
            victim = crew.pop(random.randrange(WORKERS))
            os.kill(victim, signal.SIGKILL)
            codes += wait_for([victim])
            crew.append(started(stage, lease=1))
        until(lambda: is_all_done(jobs))
    return {"killed": codes, "ended": told_to_end(crew)}


def outage(folder: str, kind: str, seconds: str) -> object:
    """Take the store away from a worker that runs a job, let that end, and bring the store back."""
    stage = Stage(Path(folder))
    with stage.jobs() as jobs, crew_on(stage) as crew:
        jobs.enqueue("hold", id="before")
        worker = crew.start(timeout=0.2, concurrency=2, lease=90)
        until(lambda: stage.told("began"))
        with OUTAGES[kind](stage):
            worker.says("does not answer")
            stage.gate.touch()
            until(lambda: stage.told("ended"))
            time.sleep(float(seconds))
        back_at = time.monotonic()
        jobs.enqueue("quick", id="after")
        until(lambda: is_all_done(jobs))
        took = time.monotonic() - back_at
        worker.send(signal.SIGTERM)
        code = worker.code()
        attempts = {job.id: job.attempts for job in jobs.find(state="completed")}
    return {
        "went": len(worker.said("the store does not answer")),
        "came": len(worker.said("the store answers again")),
        "errors": worker.said("ERROR"),
        "took": took,
        "code": code,
        "attempts": attempts,
    }


@contextmanager
def locked(stage: Stage) -> Iterator[None]:
    """Hold the file as another program may that has a transaction open."""
    with closing(sqlite3.connect(stage.store, isolation_level=None)) as db:
        db.execute("pragma busy_timeout = 30000")
        db.execute("begin exclusive")
        yield


@contextmanager
def moved_away(stage: Stage) -> Iterator[None]:
    """Have the folder elsewhere, as if its disk were not there."""
    elsewhere = stage.folder / "elsewhere"
    stage.home.rename(elsewhere)
    yield
    elsewhere.rename(stage.home)


def started(stage: Stage, lease: float) -> int:
    """Start a worker, and return its process id when it is about to claim."""
    reader, writer = os.pipe()
    child = fork(partial(work_along, stage, writer, lease))
    os.close(writer)
    with open(reader, "rb") as ready:  # noqa: PTH123 - it is a pipe
        assert ready.read() == b"ready", f"see {stage.log}"
    return child


def work_along(stage: Stage, writer: int, lease: float) -> None:
    logging.basicConfig(filename=stage.log, level=logging.INFO, format="%(process)s %(levelname)s %(message)s")
    random.seed(os.getpid())
    with stage.jobs() as jobs:
        add_tasks(jobs, stage)

        @jobs.lifespan
        def say_ready() -> Iterator[None]:
            os.write(writer, b"ready")
            os.close(writer)
            yield

        jobs.work(concurrency=AT_ONCE, lease=lease)


def told_to_end(crew: list[int]) -> list[int]:
    for each in crew:
        os.kill(each, signal.SIGTERM)
    return wait_for(crew)


def give_load(jobs: tenure.Jobs, number: int) -> None:
    kinds = ("load", "load_async")
    jobs.enqueue_many(tenure.NewJob(kinds[n % 2], max_attempts=None, max_crashes=1_000) for n in range(number))


def parts(number: int, times: int) -> list[int]:
    """Return so many whole numbers, about equal, that make up this one."""
    return [number // times + (n < number % times) for n in range(times)]


def is_all_done(jobs: tenure.Jobs) -> bool:
    return all(row.due + row.scheduled + row.running == 0 for row in jobs.stats().rows)


OUTAGES = {each.__name__: each for each in (locked, moved_away)}
SCENES: dict[str, Callable[..., object]] = {each.__name__: each for each in (work, restarts, kills, outage)}

if __name__ == "__main__":
    print(json.dumps(SCENES[sys.argv[1]](*sys.argv[2:])))
