"""Long runs on each PostgreSQL version: with an open snapshot, and with many clients that name the same jobs.

Run with `./dev prove postgres`; `JOBS=1000000 SECONDS=120 ./dev prove postgres` for longer. The report is written to
`results/`.
"""

import os
import sys
import time
from collections.abc import Callable

from tenure.worker.work_source import HINT_TTL
from tests.postgres.stores import Place, new_place
from tests.postgres.test_deadlocks import DEADLOCKS, storm
from tests.postgres.test_snapshot import PART, costs_with_a_snapshot_held
from tests.prove.report import Part, Report
from tests.servers import cluster
from tests.servers.servers import running_servers

JOBS = int(os.environ.get("JOBS", "300000"))
SECONDS = float(os.environ.get("SECONDS", "20"))
MOST = 1.25
"""Largest cost of the last jobs, as a multiple of the cost of the first jobs."""


def as_often_as_a_worker() -> Callable[[], bool]:
    """Return a function that returns True once per `HINT_TTL`, when a worker scans without a hint."""
    looked_at = time.monotonic()

    def is_time() -> bool:
        nonlocal looked_at
        now = time.monotonic()
        if now - looked_at < HINT_TTL:
            return False
        looked_at = now
        return True

    return is_time


def snapshot(place: Place) -> Part:
    costs = costs_with_a_snapshot_held(place, JOBS // PART, as_often_as_a_worker())
    each = [round(cost / PART, 2) for cost in costs]
    holds = {"the cost of a job does not grow while a snapshot is open": each[-1] <= MOST * each[0]}
    return holds, {"pages a job": each}


def deadlocks(place: Place) -> Part:
    store = place.open()
    before = place.execute(DEADLOCKS)
    failures = storm(store, SECONDS)
    found = [after - was for (after,), (was,) in zip(place.execute(DEADLOCKS), before, strict=True)]
    store.close()
    holds = {"clients that name the same jobs in opposite orders cause no deadlock": failures == [] and found == [0]}
    return holds, {"deadlocks": found[0], "failures": [repr(each) for each in failures]}


def main() -> int:
    report = Report("postgres", {"jobs": JOBS, "seconds of each storm": SECONDS})
    with running_servers() as servers:
        for name in cluster.names():
            for part in (snapshot, deadlocks):
                with new_place(servers.shared(name).url) as place:
                    holds, found = part(place)
                report.add(f"{part.__name__} on {name}", {f"{name}: {what}": holds[what] for what in holds}, found)
    return report.end(f"{JOBS} jobs with an open snapshot, {SECONDS:g} s of storm, on {' and '.join(cluster.names())}")


if __name__ == "__main__":
    sys.exit(main())
