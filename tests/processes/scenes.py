"""Scenes with worker processes: `python -m tests.processes.scenes NAME FOLDER …`.

A scene prints its result as JSON. The tests check the store and the lines that handlers wrote.
"""

import json
import logging
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import tenure
from tests.playing import LONGEST, fork, play_in, wait_for
from tests.processes.stage import Stage, until
from tests.processes.tasks import add_tasks

WORKERS = 3
AT_ONCE = 4
FIRST = 1_000
"""Number of jobs that are enqueued before the first worker is replaced; each replacement enqueues more."""


def play(name: str, stage: Stage, *arguments: object, timeout: float = LONGEST) -> Any:
    """Run a scene in a new process; return its result."""
    return play_in("tests.processes.scenes", name, stage.folder, *arguments, timeout=timeout)


def work(folder: str, options: str) -> object:
    """Run a worker; return its summary."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    told = json.loads(options)
    stage = Stage(Path(folder))
    with stage.jobs(timeout=told.pop("timeout", 60.0)) as jobs:
        add_tasks(jobs, stage)
        return asdict(jobs.work(**told))


def restarts(folder: str, number: str, times: str) -> object:
    """Replace workers while jobs are enqueued: start a worker, then stop the oldest worker."""
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
    """Repeatedly kill a random worker while jobs are enqueued, and start another worker."""
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


def started(stage: Stage, lease: float) -> int:
    """Start a worker; return its process id when the worker is about to claim."""
    reader, writer = os.pipe()
    child = fork(partial(work_along, stage, writer, lease))
    os.close(writer)
    with open(reader, "rb") as ready:  # noqa: PTH123 - a pipe
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
    """Split `number` into `times` integers of about equal size."""
    return [number // times + (n < number % times) for n in range(times)]


def is_all_done(jobs: tenure.Jobs) -> bool:
    return all(row.due + row.scheduled + row.running == 0 for row in jobs.stats().rows)


SCENES: dict[str, Callable[..., object]] = {each.__name__: each for each in (work, restarts, kills)}

if __name__ == "__main__":
    print(json.dumps(SCENES[sys.argv[1]](*sys.argv[2:])))
