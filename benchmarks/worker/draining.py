"""Jobs per second while draining a backlog."""

import gc
from contextlib import closing
from pathlib import Path

from benchmarks.alone import alone
from benchmarks.choosing import chosen
from benchmarks.machine import new_folder
from benchmarks.worker.field import FIELD


def drain_rate(name: str, number: int, folder: Path) -> float:
    """Run the jobs in a new process; return jobs per second."""
    with new_folder(folder) as place:
        return number / alone(_drain, name, number, place)


def _drain(name: str, number: int, folder: Path) -> float:
    (contestant,) = chosen([name], FIELD)
    with closing(contestant.backlog(folder)) as backlog:
        backlog.fill(number)
        gc.collect()
        return backlog.drain()
