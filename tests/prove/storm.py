"""A long storm: many processes on one SQLite file, killed at random again and again. Nothing may be lost or done twice.

Run with `./dev prove storm`; `JOBS=500000 KILLS=1000 ./dev prove storm` for longer. The report is kept in `results/`.
"""

import json
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from tests.sqlite.scenes import play
from tests.sqlite.verdict import effects, verdict

JOBS = int(os.environ.get("JOBS", "60000"))
KILLS = int(os.environ.get("KILLS", "300"))
WORKERS = int(os.environ.get("WORKERS", "8"))
LONGEST = 3600.0
REPORT = Path(__file__).parent / "results" / "storm.json"


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tenure-storm-") as folder:
        path = Path(folder) / "tenure.db"
        played = play("storm", path, JOBS, WORKERS, KILLS, timeout=LONGEST)
        found = {**verdict(path), **effects(path)}
    holds = {
        "every worker that was left ended well": played == {"killed": KILLS, "ended": [0] * WORKERS},
        "no job is lost, and all are completed": found["states"] == {"completed": JOBS},
        "each was completed once": found["happened"]["completed"] == JOBS,
        "every crash is a lease that ran out": found["crashes"] == found["happened"].get("expired", 0) > 0,
        "no effect of another claim than the one that completed": found["of another claim than the one that completed"]
        == 0,
        "the file is whole": found["integrity"] == "ok",
        "the numbers of its lanes are true": found["numbers are true"],
        "nothing is left without its job": found["unpaired rows"] == 0,
    }
    report = {
        "jobs": JOBS,
        "workers": WORKERS,
        "kills": KILLS,
        "seconds": round(time.monotonic() - started),
        "python": sys.version.split()[0],
        "sqlite": sqlite3.sqlite_version,
        "holds": holds,
        "found": found,
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    for what, it_holds in holds.items():
        print(f"{'ok  ' if it_holds else 'FAIL'} {what}")
    print(
        f"{JOBS} jobs, {WORKERS} processes, {KILLS} kills, {report['seconds']} s; see {REPORT.relative_to(Path.cwd())}"
    )
    return 0 if all(holds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
