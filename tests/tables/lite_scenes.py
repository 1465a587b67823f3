"""Scenes on a table in a SQLite file, each in a new process."""

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tenure.core.operations import Query
from tenure.testing.conformance.building import as_taken, build_completion, request
from tests.playing import fork, play_in, wait_for
from tests.tables.lite import KINDS, opened

LEASE = 5.0
"""Seconds: all processes that die have claimed before the first lease expires."""

POINTS = ("claimed", "written", "settled", "committed")
"""The points at which a worker with claimed rows may die."""


def play(name: str, *arguments: object) -> Any:
    return play_in(__name__, name, *arguments)


def work(path: Path, kind: str, worker: str, dies_at: str | None = None, tells: int | None = None) -> None:
    """Claim rows and write an output row in the same commit as the completion, until all rows are completed."""

    def at(point: str) -> None:
        if point == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    number = 0
    with opened(path, **KINDS[kind]) as table:
        while table.stats().total("completed") < _rows(path):
            number += 1
            asked = request(worker=worker, token=f"{worker}-{number}", limit=3, lease=LEASE)
            jobs = table.claim(asked).jobs
            if tells is not None:
                os.write(tells, b"c")
            for job in jobs:
                at("claimed")
                with table.transaction() as connection:
                    connection.execute("insert into outputs (order_id, fence) values (?, ?)", (job.id, job.fence))
                    at("written")
                    with table.join(connection) as joined:
                        if joined.settle([build_completion(as_taken(job, asked))]) != [True]:
                            connection.execute("delete from outputs where rowid = last_insert_rowid()")
                    at("settled")
                at("committed")
            table.wait(None, None, 0.02)


def storm(path: Path, kind: str, workers: int, deaths: int) -> dict[str, Any]:
    """Run workers on the rows, beside workers that have claimed rows and die at different points."""
    with opened(path, **KINDS[kind]):
        pass
    told_by, tells = os.pipe()
    dying = [fork(partial(work, path, kind, f"dying-{n}", POINTS[n % len(POINTS)], tells)) for n in range(deaths)]
    for _ in dying:
        assert os.read(told_by, 1) == b"c"
    living = [fork(partial(work, path, kind, f"living-{n}")) for n in range(workers)]
    return {"deaths": wait_for(dying), "codes": wait_for(living)}


def zombie(path: Path, kind: str) -> dict[str, Any]:
    """Freeze a holder past its lease; let another process take over; then resume the first."""
    told_by, tells = os.pipe()

    def hold() -> None:
        with opened(path, **KINDS[kind]) as table:
            asked = request(worker="frozen", token="frozen", lease=LEASE)
            (job,) = table.claim(asked).jobs
            os.write(tells, b"held\n")
            os.kill(os.getpid(), signal.SIGSTOP)
            os.write(tells, b"landed\n" if table.settle([build_completion(as_taken(job, asked))])[0] else b"lost\n")

    child = fork(hold)
    held = os.read(told_by, 100)
    os.waitid(os.P_PID, child, os.WSTOPPED)
    with opened(path, **KINDS[kind]) as table:
        asked = request(worker="other", token="other", lease=60)
        while not (jobs := table.claim(asked).jobs):
            table.wait(None, None, 60)
        os.kill(child, signal.SIGCONT)
        said = os.read(told_by, 100)
        landed = table.settle([build_completion(as_taken(jobs[0], asked))])
        (job,) = table.find(Query()).jobs
    codes = wait_for([child])
    return {
        "said": (held + said).decode().split(),
        "landed": landed,
        "state": job.state,
        "worker": job.worker,
        "fence": job.fence,
        "codes": codes,
    }


def _rows(path: Path) -> int:
    return int(path.with_suffix(".rows").read_text())


SCENES: dict[str, Callable[..., Any]] = {"storm": storm, "zombie": zombie}

if __name__ == "__main__":
    _, scene, place, *arguments = sys.argv
    played = SCENES[scene](Path(place), *(int(each) if each.isdigit() else each for each in arguments))
    sys.stdout.write(json.dumps(played))
