"""While an old snapshot keeps the server from removing dead entries, operations do not scan them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import psycopg

from tenure.backends.postgres import PostgreSQL
from tenure.core.operations import LARGEST_BATCH, Extension
from tenure.testing.conformance.building import as_taken, build_completion, request, take
from tests.postgres.crowd import Crowd
from tests.postgres.stores import Place
from tests.tiers import only_in_all

BATCH = 100
PART = 10_000
PARTS = 6


@contextmanager
def snapshot_held(place: Place) -> Iterator[None]:
    with psycopg.connect(place.server) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from pg_class")
        yield


class Drain:
    """Hints as a worker uses them: passed to the next claim, and dropped from time to time."""

    def __init__(self, store: PostgreSQL, looks_at_everything: Callable[[], bool]) -> None:
        self._store = store
        self._looks_at_everything = looks_at_everything
        self._asked = request(limit=BATCH)
        self._jobs = store.claim(self._asked).jobs
        self._hint: object = None

    def part(self) -> None:
        for _ in range(PART // BATCH):
            hint = None if self._looks_at_everything() else self._hint
            asked = request(limit=BATCH, hint=hint, lease=1.0)
            settlements = [build_completion(as_taken(job, self._asked)) for job in self._jobs]
            landed, claimed = self._store.exchange(settlements, asked)
            assert all(landed)
            assert len(claimed.jobs) == BATCH
            self._asked, self._jobs, self._hint = asked, claimed.jobs, claimed.hint


def every(number: int) -> Callable[[], bool]:
    """Return a function that is true at every n-th call."""
    asked = count(1)
    return lambda: next(asked) % number == 0


def costs_with_a_snapshot_held(place: Place, parts: int, looks_at_everything: Callable[[], bool]) -> list[int]:
    """Return the number of pages touched for each part of the jobs, in order."""
    # One connection, whose pages are counted.
    store = place.open("&connections=1")
    try:
        store.migrate()
        Crowd(queued=(parts + 1) * PART).fill(place)
        with snapshot_held(place):
            drain = Drain(store, looks_at_everything)
            return [place.buffers(store, drain.part) for _ in range(parts)]
    finally:
        store.close()


@only_in_all
def test_with_a_snapshot_held_jobs_cost_the_same_after_many_as_at_the_start(place: Place) -> None:
    """Slow: thousands of jobs are done while a snapshot is held."""
    # About the number of batches that a worker finishes within a second, after which it drops the hint.
    costs = costs_with_a_snapshot_held(place, PARTS, every(100))

    assert costs[-1] <= 1.25 * costs[0]


@only_in_all
def test_without_a_hint_the_dead_entries_are_walked(place: Place) -> None:
    """Slow: thousands of jobs are done while a snapshot is held."""
    costs = costs_with_a_snapshot_held(place, 3, every(1))

    assert costs[-1] > 1.1 * costs[0]


def test_a_lost_claim_is_looked_up_by_its_id_while_a_snapshot_keeps_the_entries_of_finished_jobs(
    place: Place,
) -> None:
    store = place.open("&connections=1")
    store.migrate()
    Crowd(queued=10 * LARGEST_BATCH).fill(place)

    with snapshot_held(place):
        for _ in range(10):
            taken = take(store, limit=LARGEST_BATCH)
            store.settle([build_completion(each) for each in taken])
        extension = Extension(hold=taken[0].hold, lease=60)
        store.extend([extension])
        pages = place.buffers(store, lambda: store.extend([extension]))
    store.close()

    assert pages <= 40
