"""A connection keeps its query plans: plans made for small tables must still be good for large ones."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.core.operations import Move, Query
from tenure.testing.conformance.building import build_cancellation, build_completion, build_record, take
from tests.postgres.stores import Place

TABLES = ("jobs", "finished", "history", "lanes", "counts", "paused", "workers")
FEW, MANY = 30, 20_000
MOST_PAGES = 400

GROW = (
    f"""
    insert into S.jobs (id, sequence, queue, type, key, priority, run_at, is_ready, max_crashes, created_at, payload)
    select 'live-' || n, nextval('S.job_sequence'), 'other', 'work', 'k' || n, 0, now(), true, 3, now(), '{{}}'
    from generate_series(1, {MANY}) n
    """,
    f"""
    insert into S.finished (
      id, sequence, queue, type, priority, run_at, state, attempts, crashes, max_crashes, endings, fence, worker, token,
      created_at, finished_at, payload
    )
    select
      'finished-' || n, nextval('S.job_sequence'), 'other', 'work', 0, now(), 'completed', 1, 0, 3, 1, 1, 'w', 't',
      now(), now(), '{{}}'
    from generate_series(1, {MANY}) n
    """,
    """
    insert into S.history (job, number, outcome, fence, ended_at)
    select sequence, 1, 'failed', 1, now() from S.finished where id like 'finished-%'
    """,
)


def enqueue(store: PostgreSQL) -> object:
    return store.enqueue([build_record() for _ in range(10)])


def enqueue_with_keys(store: PostgreSQL) -> object:
    given = [build_record() for _ in range(10)]
    return store.enqueue([build_record(id=each.id, key=each.id) for each in given])


def cancel_and_retry(store: PostgreSQL) -> object:
    ids = ["a", "b", "c"]
    return store.move(ids, Move.CANCEL) and store.move(ids, Move.RETRY)


def take_back(store: PostgreSQL) -> object:
    return take(store, limit=3, queues=("few",)) and store.reap(worker="w1")


def find(store: PostgreSQL) -> object:
    return store.find(Query(ids=("a", "b", "finished-1")))


OPERATIONS: Mapping[str, Callable[[PostgreSQL], object]] = {
    each.__name__: each for each in (enqueue, enqueue_with_keys, cancel_and_retry, take_back, find)
}


@pytest.fixture
def small(place: Place) -> Iterator[PostgreSQL]:
    """A store with few jobs and current planner statistics, on one connection."""
    store = place.open("&connections=1")
    store.enqueue([build_record(id=id, queue="few", max_crashes=1_000) for id in ("a", "b", "c")])
    store.enqueue([build_record(queue="x") for _ in range(FEW)])
    held = take(store, limit=FEW, queues=("x",))
    store.settle([(build_completion if n % 2 else build_cancellation)(each) for n, each in enumerate(held)])
    for table in TABLES:
        place.execute(f"alter table S.{table} set (autovacuum_enabled = false)")
        place.execute(f"vacuum analyze S.{table}")
    yield store
    store.close()


def test_what_was_planned_among_few_jobs_touches_no_more_pages_among_many(place: Place, small: PostgreSQL) -> None:
    for operation in OPERATIONS.values():
        operation(small)

    for text in GROW:
        place.execute(text)

    pages = {name: place.buffers(small, partial(each, small)) for name, each in OPERATIONS.items()}
    assert {name: number for name, number in pages.items() if number > MOST_PAGES} == {}
