"""Remove each guard of the memory store and of the client in turn, and see that the tests notice.

A guard that no test misses is not tested. Run with `./dev prove guards`. For the store, a named test of the
conformance suite must notice; whether the state machine does as well, against the plain model, is shown.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEMORY = Path("src/tenure/backends/memory")
CLIENT = Path("src/tenure")
PYTEST = ["-m", "pytest", "-x", "-q", "--no-header", "-o", "timeout=20"]
CONFORMANCE = "src/tenure/testing/conformance"
STORE_TESTS = [*PYTEST, CONFORMANCE, "--deselect", f"{CONFORMANCE}/queueing/test_model.py"]
CLIENT_TESTS = [*PYTEST, "tests/jobs"]
MACHINE = """
from tenure.testing.conformance.machine import compare
from tests.model.test_reference import open_pair
compare(open_pair, examples=150, steps=50)
"""


@dataclass(frozen=True, slots=True)
class Guard:
    """What is protected, and how its protection is taken away."""

    name: str
    module: str
    text: str
    instead: str


GUARDS = [
    Guard("fence", "record.py", "self.fence == hold.fence and ", ""),
    Guard("token", "record.py", " and self.token == hold.token\n\n    def has_ended_by", "\n\n    def has_ended_by"),
    Guard("state", "record.py", "return self.state is State.RUNNING and self.fence", "return self.fence"),
    Guard("the fence rises with each claim", "record.py", "self.fence += 1", "self.fence = 1"),
    Guard("the fence outlives an operator's retry", "record.py", "self.attempts = self.crashes = 0", "self.attempts = self.crashes = self.fence = 0"),
    Guard("attempts are counted at the claim", "record.py", "        self.attempts += 1\n", ""),
    Guard("attempts are given back", "record.py", "self.attempts += settlement.attempts", "pass"),
    Guard("spent attempts fail an expired job", "record.py", "is_spent(self.attempts, self.entry.max_attempts) or ", ""),
    Guard("crashes are counted", "record.py", "self.crashes += RULES[Outcome.EXPIRED].crashes", "pass"),
    Guard("spent crashes fail an expired job", "record.py", " or is_spent(self.crashes, self.entry.max_crashes)", ""),
    Guard("a cancel that was asked for wins over other endings", "record.py", "overridden(settlement.state, cancel_requested=self.cancel_requested)", "settlement.state"),
    Guard("a cancel that was asked for wins over expiry", "record.py", "spent=spent, cancel_requested=self.cancel_requested", "spent=spent"),
    Guard("a cancel that was asked for ends with the claim", "record.py", "        self.cancel_requested = False\n", ""),
    Guard("an extension never shortens", "record.py", "if self.leased_until is None or until > self.leased_until:", "if True:"),
    Guard("a settlement sent again landed", "record.py", "return any((ending.fence, ending.token, ending.outcome) == mine for ending in self.history)", "return False"),
    Guard("a completion sent again landed", "record.py", "return self.state is State.COMPLETED and (self.fence, self.token, Outcome.COMPLETED) == mine", "return False"),
    Guard("an expired claim is not one that settled", "record.py", "(ending.fence, ending.token, ending.outcome) == mine", "(ending.fence, ending.token) == mine[:2]"),
    Guard("the history is bounded", "record.py", "if len(self.history) > HISTORY_KEPT:", "if False:"),
    Guard("no progress of an earlier claim", "record.py", "        self.started_at = now\n        self.progress = None\n", "        self.started_at = now\n"),
    Guard("expiry (a live lease is not reaped)", "index.py", "None if first is None or first[0] > now else", "None if first is None else"),
    Guard("expiry (an expired lease is reaped by a claim)", "backend.py", "            self._reap_expired(now, SWEEP)\n", ""),
    Guard("limit of a claim", "index.py", "pop_in_order(self._promoted(queues, types, now), limit)", "pop_in_order(self._promoted(queues, types, now), 10**9)"),
    Guard("a claim reaps a bounded number", "backend.py", "self._reap_expired(now, SWEEP)", "self._reap_expired(now, 10**9)"),
    Guard("the oldest of a burst are let in first", "index.py", "pop_in_order((lane.scheduled for lane in lanes), most, until=now)", "[id for lane in lanes for id in pop_in_order([lane.scheduled], most, until=now)][:most]"),
    Guard("stats count a burst", "index.py", "self._promote([lane], now, SCAN)", "self._promote([lane], now, SWEEP)"),
    Guard("only started jobs crashed", "backend.py", "if started is None or record.entry.id in started:", "if True:"),
    Guard("a wait waits", "waiters.py", "self._event.wait(timeout)", "pass"),
    Guard("a wait knows when leases run out", "index.py", "lines = [self._leases, *(", "lines = [*("),
    Guard("an operator's note is no error", "search.py", " if each.outcome is not Outcome.OPERATOR)", ")"),
    Guard("started_at is the last claim's", "record.py", "self.started_at = now\n", "self.started_at = self.started_at or now\n"),
    Guard("limit of a reap", "backend.py", "while len(reaped) < limit and ", "while "),
    Guard("limit of a purge", "index.py", "pop_in_order(lines, limit, until=moment)", "pop_in_order(lines, 10**9, until=moment)"),
    Guard("due", "lane.py", "if record.run_at <= now:", "if True:"),
    Guard("due (not promoted too early)", "index.py", "most, until=now)", "most)"),
    Guard("due (promoted at all)", "index.py", "self._promote(lanes, now, SWEEP)", "pass"),
    Guard("priority", "record.py", "return -self.entry.priority, self.run_at", "return 0, self.run_at"),
    Guard("run_at order", "record.py", "return -self.entry.priority, self.run_at, self.sequence", "return -self.entry.priority, self.created_at, self.sequence"),
    Guard("enqueue order", "record.py", "priority, self.run_at, self.sequence", "priority, self.run_at, -self.sequence"),
    Guard("the order across queues and types", "line.py", "    heapify(heads)\n    while", "    while"),
    Guard("queues asked for", "index.py", "self._lanes.items() if queues is None else ((each, self._lanes.get(each, {})) for each in queues)", "self._lanes.items()"),
    Guard("types asked for", "index.py", "(lanes.values() if types is None else (lanes[each] for each in types if each in lanes))", "lanes.values()"),
    Guard("pause", "index.py", "            if queue not in self.paused\n", ""),
    Guard("key", "backend.py", "            if holder is not None:\n                return Enqueued(id=holder, created=False)\n", ""),
    Guard("key (told apart by queue)", "index.py", "self._by_key.get((queue, key))", "next((id for (_, each), id in self._by_key.items() if each == key), None)"),
    Guard("key (raise)", "backend.py", 'if holder is not None and entry.on_conflict == "raise":', "if False:"),
    Guard("key (within one request)", "backend.py", " or keys.get((entry.queue, entry.key))", ""),
    Guard("key (freed at the end)", "index.py", "            del self._by_key[entry.queue, entry.key]\n", "            pass\n"),
    Guard("key (on retry)", "backend.py", "refused = Refusal.KEY_TAKEN", "pass"),
    Guard("the same id is the same job", "backend.py", "if entry.id in self._index.records or entry.id in planned:", "if False:"),
    Guard("all or none", "backend.py", "        planned[entry.id] = entry\n", "        self._store(entry, self._clock())\n"),
    Guard("a repeated token", "backend.py", "        if not records:\n", "        if True:\n"),
    Guard("legal moves", "backend.py", "refused = refusal(move, record.state, cancel_requested=record.cancel_requested)", "refused = None"),
    Guard("only finished jobs are deleted", "backend.py", "if record.state not in DELETABLE:", "if False:"),
    Guard("only old jobs are purged", "index.py", "limit, until=moment)", "limit)"),
    Guard("only named states are purged", "index.py", "if state in states and ", "if "),
    Guard("a named worker only", "backend.py", "sorted(self._index.held_by_worker(worker),", "sorted((each for each in self._index.records.values() if each.state is State.RUNNING),"),
    Guard("payloads are not shared", "record.py", "meta=dict(entry.meta)", "meta=entry.meta"),
    Guard("refused writes are counted", "backend.py", "                self._tally.add(record.entry.queue, Event.REFUSED, now)\n", "                pass\n"),
    Guard("silent workers are dropped", "registry.py", "if until <= now]", "if False]"),
    Guard("the lock", "backend.py", "        with self._lock:\n            if self._journal", "        if True:\n            if self._journal"),
]  # fmt: skip

CLIENT_GUARDS = [
    Guard("a lease counts from before the claim", "jobs.py", "            sent_at = ticks()\n            jobs = backend.claim(request).jobs\n", "            jobs = backend.claim(request).jobs\n            sent_at = ticks()\n"),
    Guard("an extension counts from before it", "claims.py", "        self._holder.keeper.note(self.lease, holding, sent_at, lease)", "        self._holder.keeper.note(self.lease, holding, ticks(), lease)"),
    Guard("a kept lease counts from before its beat", "keeper.py", "lease.note(holding, sent_at, lease.length)\n            if", "lease.note(holding, self._ticks(), lease.length)\n            if"),
    Guard("a margin for drift", "keeper.py", "length * (1 - DRIFT)", "length"),
    Guard("a longer lease is not shortened here", "keeper.py", "max(self.valid_until, sent_at + length * (1 - DRIFT))", "sent_at + length * (1 - DRIFT)"),
    Guard("a deadline that passed is a loss", "keeper.py", "self.is_over or self._ticks() >= self.valid_until", "self.is_over"),
    Guard("a refusal is a loss", "keeper.py", "            self.is_over = True\n            return\n", "            return\n"),
    Guard("an ended claim has lost nothing", "keeper.py", "            if self._kept.pop(id(lease), None) is None:\n                return\n", "            self._kept.pop(id(lease), None)\n"),
    Guard("an ended claim is kept no more", "claims.py", "        self._holder.keeper.end(self.lease)\n\n    def ending_by", "\n    def ending_by"),
    Guard("a left block keeps no more", "keeper.py", "                if lease.blocks <= 0:\n                    self._kept.pop(id(lease), None)\n", ""),
    Guard("a revived claim is kept again", "keeper.py", "            if lease.blocks > 0 and not self._is_stopped:\n                self._keep(lease)\n", ""),
    Guard("a closed keeper keeps nothing", "keeper.py", "            if self._is_stopped:\n                raise", "            if False:\n                raise"),
    Guard("an ending lands once", "claims.py", '            raise self._lost(f"it was {self._outcome} already")\n        if not', "            pass\n        if not"),
    Guard("a lost claim cannot be entered", "claims.py", "        if self.is_lost:\n            raise", "        if False:\n            raise"),
    Guard("an interruption releases", "claims.py", "if isinstance(error, Exception) else", "if True else"),
    Guard("an unanswered ending is sent again", "claims.py", "self._settle(self.unanswered or self.ending_by(error))", "self._settle(self.ending_by(error))"),
    Guard("an unanswered ending is sent again by the claims", "claims.py", "claim.unanswered or claim.ending_by(", "claim.ending_by("),
    Guard("a neighbour is not blamed", "claims.py", "error if claim is blamed else None", "error"),
    Guard("another's loss is not mine", "claims.py", " and (error.id, error.fence) == (self.id, self.fence)", ""),
    Guard("a fork holds nothing (claim)", "claims.py", "        if not self._holder.is_here():\n            return False\n", ""),
    Guard("a fork holds nothing (claims)", "claims.py", "        if not self._holder.is_here():\n            return\n", ""),
    Guard("a fork keeps nothing", "keeper.py", "        if self._process != os.getpid():\n            self._begin()\n", ""),
    Guard("each look has its own token", "jobs.py", "            request = replace(request, token=_new_token())\n", ""),
    Guard("a waiting claim looks again", "jobs.py", "min(left, LONGEST_POLL)", "left"),
    Guard("a waiting claim wants its types", "jobs.py", "backend.wait(request.queues, request.types, ", "backend.wait(request.queues, None, "),
    Guard("what is claimed after close is given back", "jobs.py", "if self._is_closed and holds:", "if False:"),
    Guard("moving all jobs must be said", "jobs.py", " != 1:\n            raise", " > 1:\n            raise"),
    Guard("closing closes the store", "jobs.py", "            backend.close()\n", ""),
]  # fmt: skip


def main() -> int:
    missed = 0
    for guard in GUARDS:
        missed += not report(guard, MEMORY, STORE_TESTS, MACHINE)
    for guard in CLIENT_GUARDS:
        missed += not report(guard, CLIENT, CLIENT_TESTS, None)
    print(f"{len(GUARDS) + len(CLIENT_GUARDS) - missed} passed, {missed} failed")
    return 1 if missed else 0


def report(guard: Guard, place: Path, tests: list[str], machine: str | None) -> bool:
    """Say who notices that the guard is gone; return whether a named test does."""
    with tempfile.TemporaryDirectory(prefix="tenure-guard-") as folder:
        copy = Path(folder)
        copy_without(guard, place, copy)
        test = first_failing_test(copy, tests)
        is_seen = machine is not None and run(copy, "-c", machine).returncode != 0
    print(f"{guard.name:<52} {'machine' if is_seen else '':<8} {test or 'NOT NOTICED'}", flush=True)
    return test is not None


def copy_without(guard: Guard, place: Path, folder: Path) -> None:
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    module = folder / place / guard.module
    before = module.read_text()
    if before.count(guard.text) != 1:
        sys.exit(f"{guard.name}: its text stands {before.count(guard.text)} times in {guard.module}; mend guards.py")
    module.write_text(before.replace(guard.text, guard.instead))


def first_failing_test(folder: Path, tests: list[str]) -> str | None:
    ran = run(folder, *tests)
    if ran.returncode == 0:
        return None
    failures = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failures[0].split("::")[-1].split("[")[0] if failures else f"pytest ended with {ran.returncode}"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    places = f"{folder / 'src'}{os.pathsep}{folder}"
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
