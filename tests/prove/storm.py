"""A long storm: many processes on one store, killed at random. No job is lost or completed twice.

Run with `./dev prove storm`, on a server with `--store postgres-18` or `--store valkey-9`; `JOBS=500000 KILLS=1000`
before it for longer. The report is written to `results/`.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.postgres import scenes as postgres_scenes
from tests.postgres import verdict as postgres_verdict
from tests.processes.grounds import File, Tables, ground_of
from tests.prove.report import Report, store_from_arguments
from tests.redis import scenes as redis_scenes
from tests.redis import verdict as redis_verdict
from tests.redis.witness import Witness
from tests.servers.servers import running_servers
from tests.sqlite import scenes as sqlite_scenes
from tests.sqlite import verdict as sqlite_verdict

JOBS = int(os.environ.get("JOBS", "60000"))
KILLS = int(os.environ.get("KILLS", "300"))
WORKERS = int(os.environ.get("WORKERS", "8"))
LONGEST = 3600.0


def storm(store: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the storm; return its result and the content of the store."""
    told = (JOBS, WORKERS, KILLS)
    with (
        running_servers() as servers,
        tempfile.TemporaryDirectory(prefix="tenure-storm-") as folder,
        ground_of(store, Path(folder), servers) as ground,
    ):
        if isinstance(ground, File):
            played = sqlite_scenes.play("storm", ground.path, *told, timeout=LONGEST)
            effects = sqlite_verdict.effects(ground.path)
        elif isinstance(ground, Tables):
            played = postgres_scenes.play("storm", ground.place, *told, timeout=LONGEST)
            effects = postgres_verdict.effects(ground.place)
        else:
            played = redis_scenes.play("storm", ground.place, Path(folder), *told, timeout=LONGEST)
            effects = redis_verdict.effects(ground.place, Witness(Path(folder)))
        return played, {**ground.verdict(), **effects}


def main() -> int:
    store = store_from_arguments()
    report = Report("storm", {"store": store, "jobs": JOBS, "workers": WORKERS, "kills": KILLS}, store)
    played, found = storm(store)
    holds = {
        "every remaining worker exited with status 0": played == {"killed": KILLS, "ended": [0] * WORKERS},
        "no job is lost, and all are completed": found["states"] == {"completed": JOBS},
        "every job was completed once": found["happened"]["completed"] == JOBS,
        "every crash is an expired lease": found["crashes"] == found["happened"].get("expired", 0) > 0,
        "only the claim that completed a job has an effect": found["of another claim than the one that completed"] == 0,
        "the store is consistent": found["is whole"],
    }
    report.add("storm", holds, found)
    return report.end(f"{JOBS} jobs, {WORKERS} processes, {KILLS} kills")


if __name__ == "__main__":
    sys.exit(main())
