"""One run: members in a target, workers, and locks of another connection."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tenure.core.job import Job, State
from tests.neighbours.board import Board, LogLine
from tests.neighbours.locks import Locks
from tests.neighbours.members import Member, mix
from tests.neighbours.settings import LEASE
from tests.neighbours.target import Target
from tests.neighbours.workers import crew_of

POLL = 0.05
LONGEST_REST = 90.0
"""Seconds for the bad members to reach their end, after the good ones."""
SHORTEST_LOCK = 2 * LEASE
"""Seconds for which the locks are held at least, so that leases of locked members expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run. None as a time in seconds means that a limit was exceeded.

    `good_in` is the time of the good members, `unlocked_in` that of all members that are not locked, `ended_in` that of
    all.
    """

    members: Sequence[Member]
    good_in: float | None
    unlocked_in: float | None
    ended_in: float | None
    locked: int
    codes: list[int]
    states: Counter[tuple[str, State]]
    jobs: dict[str, Job]
    runs: dict[str, list[int]]
    log_lines: dict[str, list[LogLine]]


def play(target: Target, folder: Path, good: int, *, limit: float, is_mixed: bool) -> Outcome:
    """Run good members, with or without bad ones. The locks are held until all other members have reached their end."""
    board = Board(folder)
    kinds = target.kinds if is_mixed else [kind for kind in target.kinds if kind.is_good]
    members = [target.member(position, kind) for position, kind in enumerate(mix(good, kinds))]
    target.fill(members)
    all_ends = Counter((member.kind.name, member.kind.end) for member in members)
    good_ends = Counter({(kind.name, kind.end): all_ends[kind.name, kind.end] for kind in kinds if kind.is_good})
    unlocked = Counter({(kind.name, kind.end): all_ends[kind.name, kind.end] for kind in kinds if not kind.is_locked})
    with crew_of(target, board) as crew:
        target.prepare(members)
        with Locks(target.lock_plan(members) if is_mixed else None, board) as locks:
            started_at = time.monotonic()
            crew.start()
            good_in = _time_until(target, good_ends, started_at, limit)
            unlocked_in = _time_until(target, unlocked, started_at, limit + LONGEST_REST)
            locked = locks.locked
            if locked:
                time.sleep(max(0.0, started_at + SHORTEST_LOCK - time.monotonic()))
        ended_in = _time_until(target, all_ends, started_at, limit + 2 * LONGEST_REST)
    return Outcome(
        members=members,
        good_in=good_in,
        unlocked_in=unlocked_in,
        ended_in=ended_in,
        locked=locked,
        codes=crew.codes,
        states=target.states(),
        jobs={job.id: job for job in target.find()},
        runs=board.runs(),
        log_lines=board.log_lines(),
    )


def _time_until(target: Target, ends: Counter[tuple[str, State]], started_at: float, limit: float) -> float | None:
    """Return the seconds from the start until the states are reached; None after the limit."""
    while True:
        passed = time.monotonic() - started_at
        if ends <= target.states():
            return passed
        if passed > limit:
            return None
        time.sleep(POLL)
