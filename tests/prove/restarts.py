"""Many restarts and kills of workers under load, and a long outage of the store: no job is lost or completed twice.

Run with `./dev prove restarts`, on a server with `--store postgres-18` or `--store valkey-9`; `RESTARTS=1000 KILLS=1000
OUTAGE=300` before it for longer. The report is written to `results/`.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes.grounds import Ground, ground_of
from tests.processes.outages import Fading, fading, outages_of, sit_out
from tests.processes.scenes import WORKERS, play
from tests.processes.stage import Stage, stage_on
from tests.processes.verdict import verdict_of_runs
from tests.prove.report import Part, Report, store_from_arguments
from tests.servers.servers import Servers, running_servers

RESTARTS = int(os.environ.get("RESTARTS", "200"))
KILLS = int(os.environ.get("KILLS", "200"))
OUTAGE = float(os.environ.get("OUTAGE", "30"))
JOBS = 60
"""Number of jobs per restart and per kill."""
LONGEST = 3600.0


def restarts(stage: Stage, ground: Ground) -> Part:
    number = JOBS * RESTARTS
    played = play("restarts", stage, number, RESTARTS, timeout=LONGEST)
    found = verdict_of_runs(stage, ground)
    holds = {
        "every stopped worker exited with status 0": played == {"restarted": [0] * RESTARTS, "ended": [0] * WORKERS},
        "no job is lost by restarts, and all are completed": found["states"] == {"completed": number},
        "no restart costs an attempt": found["attempts burnt"] == 0,
        "no job ran twice because of a restart": found["ran more than once"] == found["never ran"] == 0,
        "only jobs that had not started were released": set(found["happened"])
        <= {"enqueued", "claimed", "released", "completed"},
        "the store is consistent after restarts": found["is whole"],
    }
    return holds, found


def kills(stage: Stage, ground: Ground) -> Part:
    number = JOBS * KILLS
    played = play("kills", stage, number, KILLS, timeout=LONGEST)
    found = verdict_of_runs(stage, ground)
    holds = {
        "every kill ended a worker": played == {"killed": [-signal.SIGKILL] * KILLS, "ended": [0] * WORKERS},
        "no job is lost by kills, and all are completed": found["states"] == {"completed": number},
        "every job was completed once": found["happened"]["completed"] == number,
        "the history explains every second run": found["ran again without a reason"] == [],
        "every crash is an expired lease": found["crashes"] == found["happened"].get("expired", 0) > 0,
        "the store is consistent after kills": found["is whole"],
    }
    return holds, found


def outage(stage: Stage, made: Fading, kind: str) -> Part:
    seen = sit_out(stage, made.away, OUTAGE)
    what = kind.replace("_", " ")
    holds = {
        f"the worker logs once that its store is {what}": (seen["went"], seen["came"]) == (1, 1),
        f"the worker uses a store that was {what} within two seconds": seen["took"] < 2,
        f"a job that ended while the store was {what} is completed": seen["attempts"] == {"before": 1, "after": 1},
        f"a worker whose store was {what} exits with status 0": seen["code"] == 0,
    }
    return holds, seen


def parts(store: str, servers: Servers) -> Iterator[tuple[str, Part]]:
    """Run each part on a separate store; yield its name and result."""
    for part in (restarts, kills):
        with new_folder() as folder, ground_of(store, folder, servers) as ground:
            yield part.__name__, part(stage_on(ground.url, folder), ground)
    for kind in outages_of(store):
        with new_folder() as folder, fading(store, kind, folder, servers) as made:
            yield kind, outage(stage_on(made.url, folder), made, kind)


@contextmanager
def new_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tenure-restarts-") as folder:
        yield Path(folder)


def main() -> int:
    store = store_from_arguments()
    told = {
        "store": store,
        "restarts": RESTARTS,
        "kills": KILLS,
        "jobs for each": JOBS,
        "outage": OUTAGE,
        "workers": WORKERS,
    }
    report = Report("restarts", told, store)
    with running_servers() as servers:
        for name, (holds, found) in parts(store, servers):
            report.add(name, holds, found)
    return report.end(f"{RESTARTS} restarts, {KILLS} kills, {len(outages_of(store))} outages of {OUTAGE:g} s")


if __name__ == "__main__":
    sys.exit(main())
