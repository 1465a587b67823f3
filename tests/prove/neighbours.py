"""Bad members among many good ones, on each store and each kind of table: a bad member delays only itself.

Run with `./dev prove neighbours`; `--store sqlite table-postgres-18` for some targets, `--jobs 500` for a short run.
The report of each target is written to `results/`.
"""

import argparse
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.neighbours.run import Outcome, play
from tests.neighbours.settings import LEASE, WORKERS
from tests.neighbours.targets import default_names, names, new_target
from tests.neighbours.verdict import figures, statements
from tests.prove.report import Report
from tests.servers.servers import Servers, running_servers

JOBS = 20_000
FACTOR = 10.0
FIXED = 5 * LEASE
"""Good members may take `FACTOR` times as long as alone, plus `FIXED` seconds for leases and back-offs. The factor is
generous: up to a quarter of the members are bad, and each of them costs several requests. A worker that stops exceeds
any factor, because the locks are held until the good members are completed."""
LONGEST = 600.0
"""Seconds for good members alone."""


def prove(
    name: str, servers: Servers, good: int, *, without: Collection[str] = (), fixed: float = FIXED
) -> tuple[dict[str, bool], dict[str, Any]]:
    """Run good members alone, then among bad ones; return the checked statements and the figures."""
    with tempfile.TemporaryDirectory(prefix="tenure-neighbours-") as folder:
        alone, mixed = Path(folder) / "alone", Path(folder) / "mixed"
        alone.mkdir()
        mixed.mkdir()
        with new_target(name, alone, servers) as target:
            control = play(target, alone, good, limit=LONGEST, is_mixed=False)
        with new_target(name, mixed, servers) as target:
            target.kinds = [kind for kind in target.kinds if kind.name not in without]
            limit = FACTOR * (control.good_in or LONGEST) + fixed
            outcome = play(target, mixed, good, limit=limit, is_mixed=True)
            return verdict_of(control, outcome, is_whole=target.is_whole())


def verdict_of(control: Outcome, outcome: Outcome, *, is_whole: bool) -> tuple[dict[str, bool], dict[str, Any]]:
    by_kind, faults = statements(outcome)
    holds = {
        "good members alone are completed": control.good_in is not None,
        f"good members took at most {FACTOR:g} times as long as alone, plus a fixed time": outcome.good_in is not None,
        "all members but the locked ones ended before the locks were released": outcome.unlocked_in is not None,
        "all members ended": outcome.ended_in is not None,
        "every worker exited with status 0": outcome.codes == control.codes == [0] * WORKERS,
        "the content is consistent": is_whole,
        **by_kind,
    }
    ratio = round(outcome.good_in / control.good_in, 1) if outcome.good_in and control.good_in else None
    return holds, {"ratio": ratio, "faults": faults, "alone": figures(control), "mixed": figures(outcome)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", nargs="+", choices=names(), default=default_names(), metavar="NAME")
    parser.add_argument("--jobs", type=int, default=JOBS, help="number of good members")
    parser.add_argument("--without", nargs="+", default=[], metavar="KIND", help="leave out kinds of bad members")
    given = parser.parse_args()
    codes = []
    with running_servers() as servers:
        for name in given.store:
            print(f"{name}: {given.jobs:,} good members alone, then among bad ones", flush=True)
            told = {
                "store": name,
                "good": given.jobs,
                "without": given.without,
                "workers": WORKERS,
                "lease": LEASE,
                "fixed": FIXED,
            }
            report = Report("neighbours", told, name)
            holds, found = prove(name, servers, given.jobs, without=given.without)
            report.add("neighbours", holds, found)
            for kind, faults in found["faults"].items():
                print(f"     {kind}: {'; '.join(faults)}")
            codes.append(report.end(f"{name}: {found['ratio']} times as long as alone"))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
