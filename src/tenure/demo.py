"""Show it at work: `python -m tenure.demo`.

Workers race for the same jobs; one vanishes with jobs in its hands, one comes back too late. What is printed at the
end is counted in the store, and the exit code says whether all of it holds.
"""

import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import tenure

NUMBER = 600
WORKERS = 6
LEASE = 1.0
LONGEST = 60.0

COMPLETED, EXPIRED, REFUSED = tenure.Event.COMPLETED, tenure.Event.EXPIRED, tenure.Event.REFUSED


@dataclass
class Witness:
    """What the workers saw, apart from what the store says."""

    runs: Counter[str] = field(default_factory=Counter)
    vanished: int = 0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ran(self, id: str) -> None:
        with self.lock:
            self.runs[id] += 1


def work(jobs: tenure.Jobs, name: str, witness: Witness) -> None:
    """Work until every job is finished."""
    while jobs.stats().total("due") or jobs.stats().total("running"):
        with jobs.claim(limit=5, lease=LEASE, wait=0.1, worker=name) as claims:
            for claim in claims:
                # A claim may be lost if this whole process is paused; whoever has it now does the work.
                with suppress(tenure.ClaimLost), claim:
                    witness.ran(claim.id)
                    time.sleep(random.uniform(0, 0.006))
                    claim.result = {"done by": name}


def vanish(jobs: tenure.Jobs, witness: Witness) -> None:
    """Take jobs and never come back: no ending, and nobody to keep the leases."""
    claims = jobs.claim(limit=25, lease=LEASE, worker="vanished")
    witness.vanished = len(claims)
    for claim in claims[:5]:
        witness.ran(claim.id)


def come_late(jobs: tenure.Jobs, witness: Witness) -> None:
    """Take jobs, freeze past the lease, then finish as if nothing had happened."""
    claims = jobs.claim(limit=10, lease=LEASE, worker="frozen")
    for claim in claims:
        witness.ran(claim.id)
    time.sleep(LEASE * 1.5)
    for claim in claims:
        try:
            claim.complete({"done by": "frozen, too late"})
        except tenure.ClaimLost:
            witness.refused += 1


def show_progress(jobs: tenure.Jobs, threads: Iterable[threading.Thread]) -> None:
    ends_at = time.monotonic() + LONGEST
    while any(thread.is_alive() for thread in threads) and time.monotonic() < ends_at:
        if is_terminal():
            done = jobs.stats().total("completed")
            filled = 40 * done // NUMBER
            print(f"\r  {'█' * filled}{'░' * (40 - filled)} {done}/{NUMBER} ", end="", flush=True)
        time.sleep(0.05)
    if is_terminal():
        print("\r" + " " * 60 + "\r", end="")


def report(jobs: tenure.Jobs, witness: Witness) -> bool:
    """Print what the store says; return whether it is as promised."""
    found = list(jobs.find())
    counts = Counter[tenure.Event]()
    for count in jobs.counts():
        counts[count.event] += count.number
    completed = sum(job.state is tenure.State.COMPLETED for job in found)
    completions, expired, refused = (counts[each] for each in (COMPLETED, EXPIRED, REFUSED))
    unexplained = sum(witness.runs[job.id] > job.fence for job in found)
    rows = [
        ("jobs completed", completed, completed == NUMBER),
        ("jobs lost", NUMBER - len(found), len(found) == NUMBER),
        ("jobs completed more than once", completions - completed, completions == completed),
        ("claims taken over when their lease ran out", expired, expired >= witness.vanished > 0),
        ("late writes refused", refused, refused >= witness.refused > 0),
        ("runs that no claim explains", unexplained, unexplained == 0),
    ]
    for text, number, holds in rows:
        print(f"  {mark(holds)} {text:<46}{number:>5}")
    return all(holds for _, _, holds in rows)


def mark(holds: bool) -> str:  # noqa: FBT001
    sign, colour = ("✓", 32) if holds else ("✗", 31)
    try:
        sign.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        sign = "ok  " if holds else "FAIL"
    return f"\033[{colour}m{sign}\033[0m" if is_terminal() and "NO_COLOR" not in os.environ else sign


def is_terminal() -> bool:
    return sys.stdout.isatty()


def main() -> int:
    jobs, witness = tenure.Jobs("memory://"), Witness()
    print(f"{NUMBER} jobs and {WORKERS} workers racing for them; one more worker vanishes,")
    print(f"and one comes back after its lease of {LEASE:g} s ran out.")
    jobs.enqueue_many(tenure.NewJob("work", {"n": n}) for n in range(NUMBER))
    vanish(jobs, witness)
    threads = [threading.Thread(target=come_late, args=(jobs, witness), daemon=True)]
    threads += [threading.Thread(target=work, args=(jobs, f"w{n}", witness), daemon=True) for n in range(WORKERS)]
    for thread in threads:
        thread.start()
    show_progress(jobs, threads)
    return 0 if report(jobs, witness) else 1


def run() -> int:
    """Run it, and end quietly when nobody listens any more."""
    if sys.argv[1:]:
        print(f"the demo takes no arguments, not {sys.argv[1]!r}", file=sys.stderr)
        return 2
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    try:
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print()
        return 130
    except OSError as exc:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(exc, BrokenPipeError):
            print(f"nothing can be written: {exc.strerror}", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(run())
