"""Python and the SQL functions leave the same state after the same operations, in any order."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.core.job import Ending, Job, JobRecord, Outcome, State
from tenure.core.operations import Extension, Hold, Move, Query
from tenure.errors import KeyTaken
from tenure.testing.conformance.building import (
    Taken,
    as_taken,
    build_cancellation,
    build_completion,
    build_failure,
    build_record,
    build_release,
    build_retry,
    build_snooze,
    request,
)
from tests.postgres.functions import Functions, functions_of
from tests.postgres.stores import Place, new_place
from tests.servers.postgres import Server
from tests.tiers import only_in_all

STEPS = 150
SEEDS = range(6)
HOUR = 3600.0


@dataclass
class Done:
    """A client, and its claims by names common to both clients."""

    store: PostgreSQL
    place: Place
    claims: dict[tuple[str, int], Taken]


class ByPython(Done):
    def enqueue(self, entries: Sequence[JobRecord]) -> object:
        try:
            return [(each.id, each.created) for each in self.store.enqueue(entries)]
        except KeyTaken as exc:
            return f"the key is taken by {exc.id}"

    def claim(self, options: Mapping[str, Any]) -> object:
        asked = request(**options)
        jobs = self.store.claim(asked).jobs
        self.claims |= {(job.id, job.fence): as_taken(job, asked) for job in jobs}
        return [(job.id, job.fence) for job in jobs]

    def extend(self, claim: tuple[str, int]) -> object:
        (holding,) = self.store.extend([Extension(hold=self.claims[claim].hold, lease=HOUR)])
        return holding.value

    def settle(self, endings: Sequence[tuple[tuple[str, int], str, bool]]) -> object:
        return self.store.settle([self._settlement(*each) for each in endings])

    def _settlement(self, claim: tuple[str, int], outcome: str, is_final: bool) -> Any:  # noqa: FBT001
        taken = self.claims[claim]
        match outcome:
            case "completed":
                return build_completion(taken, {"a": [1, None]})
            case "failed":
                settlement = build_failure(taken, final=is_final)
                return replace(settlement, delay=HOUR) if settlement.state is State.QUEUED else settlement
            case "retried":
                return build_retry(taken, delay=HOUR, why="not yet" if is_final else None)
            case "snoozed":
                return build_snooze(taken, HOUR)
            case "released":
                return build_release(taken)
            case _:
                return build_cancellation(taken, "no more" if is_final else None)

    def reap(self) -> object:
        return [(each.id, each.state.value, each.worker, each.fence) for each in self.store.reap()]


class ByFunctions(Done):
    sql: Functions

    def enqueue(self, entries: Sequence[JobRecord]) -> object:
        rows = self.sql.enqueue(*(as_json(each) for each in entries))
        taken = [row["id"] for row in rows if row["key_taken"]]
        return f"the key is taken by {taken[0]}" if taken else [(row["id"], row["created"]) for row in rows]

    def claim(self, options: Mapping[str, Any]) -> object:
        named = {
            "queues": None if options["queues"] is None else list(options["queues"]),
            "types": None if options["types"] is None else list(options["types"]),
            "max_jobs": options["limit"],
            "lease": HOUR,
            "token": options["token"],
        }
        rows = self.sql.rows("claim", options["worker"], **named)
        for row in rows:
            (job,) = self.store.find(Query(ids=(row["id"],))).jobs
            self.claims[row["id"], row["fence"]] = Taken(
                job, Hold(id=row["id"], fence=row["fence"], token=row["token"])
            )
        return [(row["id"], row["fence"]) for row in rows]

    def extend(self, claim: tuple[str, int]) -> object:
        hold = self.claims[claim].hold
        return self.sql.value("extend", hold.id, hold.fence, hold.token, HOUR)

    def settle(self, endings: Sequence[tuple[tuple[str, int], str, bool]]) -> object:
        return self.sql.settle(*(self._settlement(*each) for each in endings))

    def _settlement(self, claim: tuple[str, int], outcome: str, is_final: bool) -> dict[str, Any]:  # noqa: FBT001
        hold = self.claims[claim].hold
        more: dict[str, dict[str, Any]] = {
            "completed": {"result": {"a": [1, None]}},
            "failed": {"error": "broken", "final": is_final, "delay": HOUR},
            "retried": {"delay": HOUR, "error": "not yet" if is_final else None},
            "snoozed": {"delay": HOUR},
            "cancelled": {"error": "no more" if is_final else None},
        }
        return {"id": hold.id, "fence": hold.fence, "token": hold.token, "outcome": outcome, **more.get(outcome, {})}

    def reap(self) -> object:
        return [tuple(row.values()) for row in self.sql.rows("reap")]


def as_json(entry: JobRecord) -> dict[str, Any]:
    """Return a job as a client in another language writes it."""
    job = {name: getattr(entry, name) for name in JobRecord.__slots__}
    job["run_at"] = None if entry.run_at is None else entry.run_at.isoformat()
    job["delay"] = None if entry.run_at is not None else entry.delay
    return job


def seen(store: PostgreSQL) -> object:
    """Return all stored values except timestamps."""
    jobs = [shown(job) for job in store.find(Query(limit=1000)).jobs]
    counts = Counter[tuple[str, str]]()
    for count in store.counts(HOUR):
        counts[count.queue, count.event] += count.number
    return jobs, counts


def shown(job: Job) -> object:
    names = [name for name in Job.__slots__ if not name.endswith(("_at", "_until")) and name != "history"]
    history = [(each.outcome, each.fence, each.token, each.worker, error_of(each)) for each in job.history]
    moments = [job.run_at > job.created_at, job.leased_until is None, job.started_at is None, job.finished_at is None]
    return {name: getattr(job, name) for name in names}, history, moments


def error_of(ending: Ending) -> str | None:
    """Return the error of an ending, without that of an expired lease, which contains timestamps."""
    return None if ending.outcome is Outcome.EXPIRED else ending.error


class Play:
    """Draws random operations, and runs each with both clients."""

    def __init__(self, seed: int, python: ByPython, sql: ByFunctions) -> None:
        self._random = random.Random(seed)
        self._python, self._sql = python, sql
        self._number = 0
        self._asked: dict[tuple[str, int], tuple[str, bool]] = {}

    def step(self) -> tuple[str, object, object]:
        """Return the operation and both results."""
        moves: list[Callable[[], tuple[object, object]]] = [
            *[self._enqueue] * 3,
            *[self._claim] * 3,
            *[self._settle] * 3,
            self._extend,
            self._reap,
            self._by_hand,
            self._by_hand,
        ]
        move = self._random.choice(moves)
        return move.__name__, *move()

    def _enqueue(self) -> tuple[object, object]:
        entries = [self._entry() for _ in range(self._random.randint(1, 4))]
        return self._python.enqueue(entries), self._sql.enqueue(entries)

    def _entry(self) -> JobRecord:
        choose = self._random.choice
        when: dict[str, Any] = choose(
            [{}, {}, {"delay": HOUR}, {"run_at": datetime.fromisoformat("2001-01-01T00:00:00+00:00")}]
        )
        return build_record(
            choose("xy"),
            id=f"id-{self._random.randint(1, 60)}",
            queue=choose("ab"),
            key=choose([None, None, "k1", "k2", "k3"]),
            on_conflict=choose(["keep", "keep", "raise"]),
            priority=choose([0, 0, 3]),
            max_attempts=choose([1, 2, None]),
            max_crashes=choose([1, 2]),
            payload=choose([{}, {"text": 'ä"\\{}'}]),
            meta=choose([{}, {"label": "content"}]),
            timeout=choose([None, 1.5]),
            **when,
        )

    def _claim(self) -> tuple[object, object]:
        choose = self._random.choice
        self._number += choose([0, 1, 1, 1])
        options = {
            "queues": choose([None, ("a",), ("a", "b")]),
            "types": choose([None, None, ("x",), ("x", "y")]),
            "limit": self._random.randint(1, 4),
            "lease": HOUR,
            "worker": f"w{self._random.randint(1, 2)}",
            "token": f"t{self._number}",
        }
        return self._python.claim(options), self._sql.claim(options)

    def _some_claims(self) -> list[tuple[str, int]]:
        """Return claims of different jobs, held or not, with a preference for the latest."""
        known = sorted(self._python.claims, key=lambda each: self._python.claims[each].hold.token[1:].zfill(4))[-12:]
        drawn = self._random.sample(known, min(len(known), self._random.randint(1, 3)))
        return list({id: (id, fence) for id, fence in drawn}.values())

    def _settle(self) -> tuple[object, object]:
        outcomes = ["completed", "failed", "retried", "snoozed", "released", "cancelled"]
        endings = [
            (claim, *self._asked.get(claim, (self._random.choice(outcomes), self._random.random() < 0.3)))
            for claim in self._some_claims()
        ]
        # Never settle the same claim as failed and as retried: after the claim has ended, the functions cannot
        # distinguish the two.
        self._asked |= {claim: (how, final) for claim, how, final in endings if how in {"failed", "retried"}}
        return self._python.settle(endings), self._sql.settle(endings)

    def _extend(self) -> tuple[object, object]:
        claims = self._some_claims()
        return [self._python.extend(each) for each in claims], [self._sql.extend(each) for each in claims]

    def _reap(self) -> tuple[object, object]:
        return self._python.reap(), self._sql.reap()

    def _by_hand(self) -> tuple[object, object]:
        """Make jobs due, expire a lease, or act as an operator: in both stores in the same way."""
        ids = [f"id-{self._random.randint(1, 60)}" for _ in range(10)]
        token, queue = f"t{self._number}", self._random.choice("ab")
        deeds: list[Callable[[Done], object]] = [
            lambda done: done.place.execute(
                "update S.jobs set run_at = run_at - interval '2 hours' where state = 'queued' and not is_ready"
            ),
            lambda done: done.place.execute("update S.jobs set leased_until = '2001-01-01' where token = %s", token),
            lambda done: [each.refusal for each in done.store.move(ids, Move.CANCEL)],
            lambda done: [each.refusal for each in done.store.move(ids, Move.RETRY)],
            lambda done: done.store.pause([queue]),
            lambda done: done.store.resume(["a", "b"]),
        ]
        deed = self._random.choice(deeds)
        return deed(self._python), deed(self._sql)


@only_in_all
@pytest.mark.parametrize("seed", SEEDS)
def test_python_and_the_functions_answer_the_same_and_leave_the_same_behind(
    place: Place, store: PostgreSQL, postgres: Server, seed: int
) -> None:
    """Slow: random sequences of operations are done twice and compared."""
    with new_place(postgres.url) as other_place:
        other = other_place.open()
        other.migrate()
        with functions_of(other_place) as sql:
            by_functions = ByFunctions(other, other_place, {})
            by_functions.sql = sql
            play = Play(seed, ByPython(store, place, {}), by_functions)
            for number in range(STEPS):
                done, python, functions = play.step()

                assert (number, done, python) == (number, done, functions)
                assert seen(store) == seen(other), f"after step {number}, {done}"
        other.close()
