"""The cost of a claim does not depend on the number of stored jobs. Counted in steps, not in time.

A step is an executed line of Python, in the memory store or in the code that it calls. The steps inside a heap are not
counted; they grow with the logarithm.
"""

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from tenure.backends.memory import Memory
from tenure.core.job import NewJob
from tenure.core.operations import MAX_AHEAD_COUNTED, Query
from tenure.testing import Clock
from tenure.testing.conformance.building import as_taken, build_completion, extend, request, settle, take, token
from tests.tiers import amount

MANY, SOME = amount(20_000, 5_000), 1_000


def filled(*, queued: int, in_the_way: int) -> Memory:
    """Return a store with `queued` due jobs, and `in_the_way` jobs of each kind that a claim must skip."""
    store = Memory(clock=Clock())
    put(store, queued, NewJob("work", {"n": 1}))
    put(store, in_the_way, NewJob("work", {"n": 1}, delay=3600, priority=100))
    put(store, in_the_way, NewJob("other", {"n": 1}, priority=50))
    return store


def put(store: Memory, number: int, job: NewJob) -> None:
    pattern = job.record("pattern")
    for _ in range(0, number, 10_000):
        store.enqueue([replace(pattern, id=token()) for _ in range(min(number, 10_000))])


@pytest.fixture(scope="module")
def small() -> Memory:
    return filled(queued=SOME, in_the_way=0)


@pytest.fixture(scope="module")
def large() -> Memory:
    """Many due jobs, a tenth as many scheduled ones of higher priority, and of another type; in tier 2 200,000."""
    gc.disable()
    store = filled(queued=10 * MANY, in_the_way=MANY)
    gc.enable()
    # Exclude the many jobs from the garbage collections of the tests.
    gc.freeze()
    return store


def steps(action: Callable[[], object]) -> int:
    counted = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001
        nonlocal counted
        counted += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(before)
    return counted


def claim_and_complete(store: Memory, limit: int) -> None:
    asked = request(limit=limit, types=("work",))
    jobs = store.claim(asked).jobs
    assert len(jobs) == limit
    store.settle([build_completion(as_taken(job, asked)) for job in jobs])


@pytest.mark.parametrize("limit", [1, 100])
def test_claiming_and_completing_costs_the_same_among_many_jobs_as_among_few(
    small: Memory, large: Memory, limit: int
) -> None:
    """Slow: the first of these tests fills a store with many jobs."""
    claim_and_complete(small, limit)
    claim_and_complete(large, limit)

    few = steps(lambda: claim_and_complete(small, limit))
    many = steps(lambda: claim_and_complete(large, limit))

    assert many <= few * 1.1


def test_claiming_nothing_costs_the_same_however_much_is_not_asked_for(small: Memory, large: Memory) -> None:
    few = steps(lambda: take(small, types=("nobody",)))
    many = steps(lambda: take(large, types=("nobody",)))

    assert many <= few * 1.1


def test_enqueueing_extending_reaping_and_counting_cost_the_same(small: Memory, large: Memory) -> None:
    def round_trip(store: Memory) -> None:
        (taken,) = take(store, types=("work",), lease=1)
        extend(store, taken.hold)
        store.reap()
        store.stats()
        store.find(Query(limit=10))
        settle(store, build_completion(taken))
        store.enqueue([NewJob("work").record(f"new-{id(store)}")])

    few, many = steps(lambda: round_trip(small)), steps(lambda: round_trip(large))

    # The larger store has one more queue and type, and so one more row of stats.
    assert many <= few * 1.2


def test_the_standing_of_a_job_costs_what_is_ahead_of_it_and_that_is_bounded(small: Memory, large: Memory) -> None:
    for store in (small, large):
        store.enqueue([NewJob("work", priority=priority).record(f"priority {priority}") for priority in (99, -99)])

    few = steps(lambda: small.explain("priority 99", None, ("work",)))
    many = steps(lambda: large.explain("priority 99", None, ("work",)))
    all_ahead = steps(lambda: large.explain("priority -99", None, None))

    assert many <= few * 1.1
    assert all_ahead < MAX_AHEAD_COUNTED * 20


def test_a_claim_promotes_and_reaps_a_bounded_number(small: Memory) -> None:
    clock = Clock()
    store = Memory(clock=clock)
    pattern = NewJob("work", delay=10).record("pattern")
    store.enqueue([replace(pattern, id=f"scheduled-{n}") for n in range(20_000)])
    clock.advance(10)

    of_many = steps(lambda: take(store))
    of_none = steps(lambda: take(small))

    assert of_many < of_none + 1_000 * 50
