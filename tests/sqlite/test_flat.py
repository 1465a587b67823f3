"""The cost of a claim does not depend on the number of stored jobs. Counted in steps of SQLite's virtual machine."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.tiers import amount

from tenure.backends.sqlite import SQLite
from tenure.backends.sqlite import claim as claiming
from tenure.backends.sqlite import enqueue as enqueueing
from tenure.backends.sqlite import move as moving
from tenure.backends.sqlite import read as reading
from tenure.backends.sqlite import schedule as scheduling
from tenure.backends.sqlite import settle as settling
from tenure.backends.sqlite.explain import EXPLAIN
from tenure.core.job import NewJob
from tenure.core.operations import MAX_AHEAD_COUNTED, Purge, Query
from tenure.testing import Clock
from tenure.testing.conformance.building import as_taken, build_completion, extend, request, settle, take, token

MANY, SOME = amount(20_000, 10_000), 1_000


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="tenure-flat-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def small(folder: Path) -> Iterator[SQLite]:
    store = filled(folder / "small.db", queued=SOME, in_the_way=SOME)
    yield store
    store.close()


@pytest.fixture(scope="module")
def large(folder: Path) -> Iterator[SQLite]:
    """Many jobs due, as many scheduled with a higher priority, of another type, running, and completed."""
    store = filled(folder / "large.db", queued=MANY, in_the_way=MANY)
    yield store
    store.close()


def filled(path: Path, *, queued: int, in_the_way: int) -> SQLite:
    store = SQLite(path, clock=Clock(), synchronous="normal")
    put(store, in_the_way, NewJob("held"))
    for _ in range(0, in_the_way, SOME):
        take(store, limit=SOME, types=("held",), lease=3600)
    put(store, in_the_way, NewJob("done"))
    for _ in range(0, in_the_way, SOME):
        store.settle([build_completion(each) for each in take(store, limit=SOME, types=("done",))])
    put(store, in_the_way, NewJob("work", delay=3600, priority=100))
    put(store, in_the_way, NewJob("other", priority=50))
    put(store, queued, NewJob("work", {"n": 1}))
    return store


def put(store: SQLite, number: int, job: NewJob) -> None:
    pattern = job.record("pattern")
    for _ in range(0, number, 10_000):
        store.enqueue([replace(pattern, id=token()) for _ in range(min(number, 10_000))])


def steps(store: SQLite, action: Callable[[], object]) -> int:
    """Return the number of instructions that SQLite's virtual machine executed."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    store.stats()
    handles = [each for each in (store.database._writer, store.database._reader) if each is not None]
    for handle in handles:
        handle.db.set_progress_handler(count, 1)
    try:
        action()
    finally:
        for handle in handles:
            handle.db.set_progress_handler(None, 0)
    assert counted > 0
    return counted


def claim_and_complete(store: SQLite, limit: int) -> None:
    asked = request(limit=limit, types=("work",))
    jobs = store.claim(asked).jobs
    assert len(jobs) == limit
    assert all(store.settle([build_completion(as_taken(job, asked)) for job in jobs]))


@pytest.mark.parametrize("limit", [1, 100])
def test_claiming_and_completing_costs_the_same_among_many_jobs_as_among_few(
    small: SQLite, large: SQLite, limit: int
) -> None:
    """Slow: the first of these tests fills a store with many jobs."""
    few = steps(small, lambda: claim_and_complete(small, limit))
    many = steps(large, lambda: claim_and_complete(large, limit))

    assert many <= few * 1.1


def test_claiming_nothing_costs_the_same_however_much_is_not_asked_for(small: SQLite, large: SQLite) -> None:
    few = steps(small, lambda: take(small, types=("nobody",)))
    many = steps(large, lambda: take(large, types=("nobody",)))

    assert many <= few * 1.1


def test_enqueueing_extending_reaping_counting_and_purging_cost_the_same(small: SQLite, large: SQLite) -> None:
    def round_trip(store: SQLite) -> None:
        (taken,) = take(store, types=("work",))
        extend(store, taken.hold)
        store.reap()
        store.stats()
        store.workers()
        store.find(Query(limit=10))
        settle(store, build_completion(taken))
        store.enqueue([NewJob("work").record(token())])
        assert store.purge(Purge(older_than=0, limit=10)) == 10

    few, many = steps(small, lambda: round_trip(small)), steps(large, lambda: round_trip(large))

    assert many <= few * 1.1


def test_the_standing_of_a_job_costs_what_is_ahead_of_it_and_that_is_bounded(small: SQLite, large: SQLite) -> None:
    for store in (small, large):
        store.enqueue([NewJob("work", priority=priority).record(f"priority {priority}") for priority in (99, -99)])

    few = steps(small, lambda: small.explain("priority 99", None, None))
    many = steps(large, lambda: large.explain("priority 99", None, None))
    all_ahead = steps(large, lambda: large.explain("priority -99", None, None))

    assert many <= few * 1.1
    assert all_ahead < MAX_AHEAD_COUNTED * 20


def test_a_claim_costs_as_much_as_it_has_lines_and_takes_jobs_not_their_product(folder: Path) -> None:
    store = SQLite(folder / "lines.db", clock=Clock(), synchronous="normal")
    store.enqueue([NewJob("work", queue=f"q{n % 100}").record(token()) for n in range(10_000)])

    one = steps(store, lambda: take(store, limit=1))
    hundred = steps(store, lambda: take(store, limit=100))
    store.close()

    # Both stores have a hundred lanes; a taken job costs about as much as with few lanes.
    assert hundred - one < 100 * 400


def test_a_claim_lets_in_a_bounded_number(folder: Path) -> None:
    clock = Clock()
    store = SQLite(folder / "burst.db", clock=clock, synchronous="normal")
    put(store, 20_000, NewJob("work", delay=10))
    clock.advance(10)

    first = steps(store, lambda: take(store))
    later = steps(store, lambda: take(store))
    store.close()

    assert first <= later * 1.1
    assert first < 1_000 * 200


FILES = {
    **{f"claim {way}": text for way, text in claiming.VARIANTS.items()},
    **{f"wait {way}": text for way, text in reading.WAIT.items()},
    **{f"standing {way}": text for way, text in EXPLAIN.items()},
    "enqueue": enqueueing.ENQUEUE,
    "schedule": scheduling.SCHEDULE,
    "extend": claiming.EXTEND,
    "settle": settling.SETTLE,
    "reap": settling.REAP,
    "history": settling.HISTORY,
    "move": moving.MOVE,
    "forget": moving.PURGE,
    "stats": reading.STATS,
    "counts": reading.COUNTS,
    "workers": reading.WORKERS,
    "pause": reading.PAUSE,
}
STATEMENTS = {f"{file}: {name}": text for file, texts in FILES.items() for name, text in texts.items()}
PAGES = {
    f"{source}, newest first: {newest_first}": text["page"] for (newest_first, source), text in reading.FIND.items()
}
SORTS = {"claim all: held", "claim of queues: held", "claim of queues and types: held"}
"""The jobs that one token holds are sorted: at most as many as one request takes."""


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_statement_walks_the_jobs_or_sorts_more_than_it_takes(large: SQLite, statement: str) -> None:
    """Slow: the first of these tests in a process fills a store with many jobs."""
    plan = explained(large, STATEMENTS[statement])

    assert scanned(plan) == []
    assert statement in SORTS or not [line for line in plan if "TEMP B-TREE FOR ORDER BY" in line]


@pytest.mark.parametrize("page", [name for name in PAGES if not name.startswith("all")])
def test_a_page_of_named_running_or_stopped_jobs_does_not_walk_the_others(large: SQLite, page: str) -> None:
    plan = explained(large, PAGES[page])

    assert scanned(plan) == []
    assert not [line for line in plan if "tenure_jobs USING INTEGER PRIMARY KEY (rowid<?)" in line]


def test_no_statement_walks_the_jobs_after_an_analyze_either(large: SQLite) -> None:
    with closing(sqlite3.connect(large.database.path)) as db:
        db.execute("analyze")
    large.close()

    assert {name: plan for name, plan in plans_of(large).items() if scanned(plan)} == {}


def test_a_claim_looks_at_no_lanes_that_are_not_asked_for(folder: Path) -> None:
    few, many = (SQLite(folder / f"{n}-lanes.db", clock=Clock(), synchronous="normal") for n in (2, 2_000))
    for store, number in ((few, 2), (many, 2_000)):
        store.enqueue([NewJob("work", queue=f"q{n}").record(token()) for n in range(number)])

    def claim(store: SQLite) -> int:
        return steps(store, lambda: take(store, queues=("q1",), types=("work", "other")))

    assert claim(many) <= claim(few) * 1.1
    few.close()
    many.close()


def test_the_due_jobs_are_read_from_their_index_in_order(large: SQLite) -> None:
    assert explained(large, claiming.CLAIM["due"]) == ["SEARCH tenure_jobs USING INDEX tenure_due (queue=? AND type=?)"]


def plans_of(store: SQLite) -> dict[str, list[str]]:
    return {name: explained(store, text) for name, text in STATEMENTS.items()}


def scanned(plan: list[str]) -> list[str]:
    """Return the plan steps that scan all jobs. A scan of the running or the stopped jobs only is allowed."""
    few = re.compile(r"USING (COVERING )?INDEX tenure_(leases|stopped)\b")
    tables = re.compile(r"SCAN (tenure_jobs|tenure_history|tenure_payloads|first|job)\b")
    return [line for line in plan if tables.match(line) and not few.search(line)]


def explained(store: SQLite, statement: str) -> list[str]:
    store.stats()
    assert store.database._writer is not None
    db: sqlite3.Connection = store.database._writer.db
    names = re.findall(r":(\w+)", statement)
    values = dict.fromkeys(names, "[]") if names else ["[]"] * statement.count("?")
    return [line for *_, line in db.execute(f"explain query plan {statement}", values)]
