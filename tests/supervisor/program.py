"""A supervisor and its child processes for the tests: `python -m tests.supervisor.program supervise|work|reap …`."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tenure
from tenure.supervisor import Supervisor, SupervisorConfig, deregister_dead, reap_dead, take_supervisor_link
from tenure.worker import Worker, stopped_by_signals
from tests.processes.stage import Stage
from tests.processes.tasks import add_tasks

HOARD = 200 << 20
"""Bytes that a handler allocates and never frees."""
hoarded: list[bytes] = []


def refusal_on(stage: Stage) -> Path:
    """Return the path of a file; children exit at start while the file exists."""
    return stage.folder / "refuse"


def plan_on(stage: Stage, options: dict[str, Any], **told: Any) -> SupervisorConfig:
    """Return a configuration whose children are workers with `options`; `told` overrides its fields."""
    python = [sys.executable, "-m", "tests.supervisor.program"]
    plan = {
        "command": [*python, "work", str(stage.folder), json.dumps(options)],
        "reap_command": [*python, "reap", str(stage.folder)],
        "processes": 1,
        "grace": options.get("grace", 30.0),
    }
    return SupervisorConfig(**{**plan, **told})


def supervise(folder: str, options: str, told: str) -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    ending = Supervisor(plan_on(Stage(Path(folder)), json.loads(options), **json.loads(told))).run()
    print(json.dumps(asdict(ending)))
    return 0


def work(folder: str, options: str) -> int:
    logging.basicConfig(level=logging.INFO, format="%(process)s %(levelname)s %(message)s")
    stage = Stage(Path(folder))
    if refusal_on(stage).exists():
        return 2
    with stage.jobs() as jobs:
        add_tasks(jobs, stage)
        _add_hoard(jobs, stage)
        _add_start(jobs, stage)
        told = take_supervisor_link()
        assert told is not None
        worker = Worker(jobs, json.loads(options), started_jobs=told.started_jobs)
        told.watch(worker)
        with stopped_by_signals(worker):
            worker.start()
            worker.join()
    return 0


def reap(folder: str) -> int:
    with Stage(Path(folder)).jobs() as jobs:
        message = sys.stdin.read()
        reap_dead(jobs._backend, message)
        deregister_dead(jobs._backend, message)
    return 0


def _add_hoard(jobs: tenure.Jobs, stage: Stage) -> None:
    @jobs.task
    def keep_memory() -> int:
        stage.tell("began")
        hoarded.append(b"x" * HOARD)
        return os.getpid()


def _add_start(jobs: tenure.Jobs, stage: Stage) -> None:
    @jobs.task(max_attempts=1)
    def start_another() -> None:
        stage.tell("began")
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        (stage.folder / "another").write_text(str(other.pid))
        other.wait()


PARTS: dict[str, Callable[..., int]] = {each.__name__: each for each in (supervise, work, reap)}

if __name__ == "__main__":
    sys.exit(PARTS[sys.argv[1]](*sys.argv[2:]))
