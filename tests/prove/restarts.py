"""Many restarts and kills of workers under load, and a long outage of their store. Nothing may be lost or done twice.

Run with `./dev prove restarts`; `RESTARTS=1000 KILLS=1000 OUTAGE=300 ./dev prove restarts` for longer. The report is
kept in `results/`.
"""

import json
import os
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.processes.scenes import OUTAGES, WORKERS, play
from tests.processes.stage import Stage
from tests.processes.verdict import verdict_of_runs

RESTARTS = int(os.environ.get("RESTARTS", "200"))
KILLS = int(os.environ.get("KILLS", "200"))
OUTAGE = float(os.environ.get("OUTAGE", "30"))
JOBS = 60
"""How many jobs come in for each restart and each kill."""
LONGEST = 3600.0
REPORT = Path(__file__).parent / "results" / "restarts.json"

Part = tuple[dict[str, bool], dict[str, Any]]
"""What holds, and what was found."""


def restarts(stage: Stage) -> Part:
    number = JOBS * RESTARTS
    played = play("restarts", stage, number, RESTARTS, timeout=LONGEST)
    found = verdict_of_runs(stage)
    holds = {
        "every worker that was told to end did so well": played
        == {"restarted": [0] * RESTARTS, "ended": [0] * WORKERS},
        "no job is lost by restarts, and all are completed": found["states"] == {"completed": number},
        "no restart costs an attempt": found["attempts burnt"] == 0,
        "no restart lets a job run twice": found["ran more than once"] == found["never ran"] == 0,
        "nothing but what was not begun was given back": set(found["happened"])
        <= {"enqueued", "claimed", "released", "completed"},
        "the file is whole after restarts": found["integrity"] == "ok" and found["numbers are true"],
    }
    return holds, found


def kills(stage: Stage) -> Part:
    number = JOBS * KILLS
    played = play("kills", stage, number, KILLS, timeout=LONGEST)
    found = verdict_of_runs(stage)
    holds = {
        "every kill was one": played == {"killed": [-signal.SIGKILL] * KILLS, "ended": [0] * WORKERS},
        "no job is lost by kills, and all are completed": found["states"] == {"completed": number},
        "each was completed once": found["happened"]["completed"] == number,
        "every second run has its reason in the history": found["ran again without a reason"] == [],
        "every crash is a lease that ran out": found["crashes"] == found["happened"].get("expired", 0) > 0,
        "the file is whole after kills": found["integrity"] == "ok" and found["numbers are true"],
    }
    return holds, found


def outage(stage: Stage, kind: str) -> Part:
    seen = play("outage", stage, kind, OUTAGE, timeout=LONGEST)
    what = kind.replace("_", " ")
    holds = {
        f"a store that is {what} is told of once": (seen["went"], seen["came"]) == (1, 1),
        f"a store that was {what} is used within two seconds": seen["took"] < 2,
        f"what ended while it was {what} is completed": seen["attempts"] == {"before": 1, "after": 1},
        f"a worker whose store was {what} ends well": seen["code"] == 0,
    }
    return holds, seen


def main() -> int:
    started = time.monotonic()
    parts = {"restarts": restarts, "kills": kills}
    holds: dict[str, bool] = {}
    found: dict[str, Any] = {}
    for name in [*parts, *OUTAGES]:
        with tempfile.TemporaryDirectory(prefix="tenure-restarts-") as folder:
            stage = Stage(Path(folder))
            true, found[name] = parts[name](stage) if name in parts else outage(stage, name)
        for what, it_holds in true.items():
            print(f"{'ok  ' if it_holds else 'FAIL'} {what}", flush=True)
        holds |= true
    report = {
        "restarts": RESTARTS,
        "kills": KILLS,
        "jobs for each": JOBS,
        "outage": OUTAGE,
        "workers": WORKERS,
        "seconds": round(time.monotonic() - started),
        "python": sys.version.split()[0],
        "sqlite": sqlite3.sqlite_version,
        "holds": holds,
        "found": found,
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(
        f"{RESTARTS} restarts, {KILLS} kills, {len(OUTAGES)} outages of {OUTAGE:g} s, {report['seconds']} s; "
        f"see {REPORT.relative_to(Path.cwd())}"
    )
    return 0 if all(holds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
