"""The cost of an operation does not depend on the size of the store: counted as work of its script, not as time."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from tenure.backends.redis import Redis
from tenure.core.job import NewJob, State
from tenure.core.operations import Extension, Move, Purge, Query
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    ENDINGS,
    Taken,
    as_taken,
    build_completion,
    build_failure,
    build_release,
    request,
    take,
    take_one,
    token,
)
from tests.redis.counting import CountingStore
from tests.redis.stores import Place, new_place
from tests.redis.verdict import faults
from tests.redis.waiting import listen
from tests.servers.servers import Servers, shared_redis_names
from tests.tiers import amount

MANY, SOME = 10_000, 500
PART = 1_000

MOST_FOUND = 3 * 1_000 + 300
"""A script of `find` reads at most a thousand rows, then the contents of the returned jobs."""

Both = tuple[CountingStore, CountingStore]


@pytest.fixture(scope="module", params=shared_redis_names())
def both(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Both]:
    """A store with few jobs, and a store with many: due, scheduled, of another type, held, and finished."""
    url = servers.shared_redis(request.param).url
    with new_place(url) as small, new_place(url) as large:
        fill(small, SOME)
        fill(large, MANY)
        with closing(CountingStore(small, Clock())) as few, closing(CountingStore(large, Clock())) as many:
            yield few, many
        assert faults(small) == faults(large) == {}


def fill(place: Place, number: int) -> None:
    with closing(place.open(clock=Clock())) as store:
        put(store, number, NewJob("held"))
        take_all(store, number, "held")
        put(store, number, NewJob("done"))
        finish(store, take_all(store, number, "done"))
        put(store, number, NewJob("work", delay=3600, priority=100))
        put(store, number, NewJob("other", priority=50))
        put(store, number, NewJob("work", {"n": 1}))


def put(store: Redis, number: int, job: NewJob) -> None:
    pattern = job.record("pattern")
    for start in range(0, number, PART):
        store.enqueue([replace(pattern, id=token()) for _ in range(min(PART, number - start))])


def take_all(store: Redis, number: int, type: str) -> list[Taken]:
    """Claim the number of jobs, and check that no job is left, so that the store knows it too."""
    return [each for _ in range(0, number + 1, PART) for each in take(store, limit=PART, types=(type,), lease=3600)]


def finish(store: Redis, taken: list[Taken]) -> None:
    """Complete one half, and fail the other half finally."""
    for start in range(0, len(taken), PART):
        some = taken[start : start + PART]
        store.settle(
            [build_completion(each) if n % 2 else build_failure(each, final=True) for n, each in enumerate(some)]
        )


def costs(both: Both, action: Callable[[CountingStore], object]) -> tuple[int, int]:
    """Return the cost of the second run, with few and with many jobs."""
    for store in both:
        action(store)
    few, many = (store.cost(action) for store in both)
    return few, many


@pytest.mark.parametrize("limit", [1, 100])
@pytest.mark.parametrize(
    "asked",
    [{}, {"types": ("work",)}, {"queues": ("default",)}, {"queues": ("default",), "types": ("work", "nothing")}],
    ids=str,
)
def test_claiming_and_completing_costs_the_same_among_many_jobs_as_among_few(
    both: Both, limit: int, asked: dict[str, tuple[str, ...]]
) -> None:
    """Slow: the first of these tests fills a store with many jobs."""

    def claim_and_complete(store: CountingStore) -> None:
        wanted = request(limit=limit, **asked)
        jobs = store.claim(wanted).jobs
        assert len(jobs) == limit
        assert all(store.settle([build_completion(as_taken(job, wanted)) for job in jobs]))
        put(store, limit, NewJob(jobs[0].type, priority=jobs[0].priority))

    few, many = costs(both, claim_and_complete)

    assert few == many
    assert many <= 300 + 60 * limit


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_exchange_costs_the_same_however_the_claims_end(both: Both, ending: str) -> None:
    def exchange(store: CountingStore) -> None:
        taken = take(store, limit=10, types=("work",))
        wanted = request(limit=10, types=("work",))
        landed, claimed = store.exchange([ENDINGS[ending](each) for each in taken], wanted)
        assert landed == [True] * 10
        store.settle([build_completion(as_taken(job, wanted)) for job in claimed.jobs])
        put(store, 20, NewJob("work"))

    few, many = costs(both, exchange)

    assert few == many


def test_claiming_from_many_lanes_costs_a_little_for_each_of_them(place: Place) -> None:
    lanes, limit = 100, 100
    with closing(CountingStore(place, Clock())) as store:
        for number in range(lanes):
            put(store, limit, NewJob(f"other-{number}"))
        put(store, 2 * limit, NewJob("first", priority=1))

        cost = store.cost(lambda store: take(store, limit=limit))

    assert cost <= 300 + 60 * limit + 20 * lanes


def test_claiming_nothing_costs_the_same_however_much_is_not_asked_for(both: Both) -> None:
    few, many = costs(both, lambda store: take(store, types=("nobody",)))

    assert few == many <= 100


@pytest.mark.parametrize(
    "action",
    [
        lambda store: store.enqueue([NewJob("work").record(token()) for _ in range(10)]),
        lambda store: store.extend([Extension(hold=take_one(store, types=("work",)).hold, lease=60)]),
        lambda store: store.reap(),
        lambda store: store.move([take_one(store, types=("work",)).id], Move.CANCEL),
        lambda store: store.purge(Purge(older_than=0, limit=10)),
        lambda store: store.find(Query(ids=(take_one(store, types=("work",)).id, "none"))),
        lambda store: store.stats(),
        lambda store: store.counts(3600),
        lambda store: store.workers(),
    ],
    ids=["enqueue", "extend", "reap", "move", "purge", "find by id", "stats", "counts", "workers"],
)
def test_other_operations_cost_the_same(both: Both, action: Callable[[CountingStore], object]) -> None:
    few, many = costs(both, action)

    assert few == many


def test_waiting_costs_little_however_many_lanes_have_jobs_that_come_due_later(place: Place) -> None:
    with closing(CountingStore(place, Clock())) as store:
        store.enqueue([NewJob(f"other-{number}", delay=3600).record(token()) for number in range(1_000)])
        # A listener that connects polls once more, which could fall into the counted work.
        listen(store)

        cost = store.cost_of_a_request(lambda store: store.wait(None, None, 0))

    assert 0 < cost <= 100


def test_a_settlement_that_was_lost_or_is_sent_again_costs_the_same_however_long_the_history(place: Place) -> None:
    found = []
    with closing(CountingStore(place, Clock())) as store:
        put(store, 1, NewJob("work"))
        for _ in range(60):
            taken = take_one(store)
            store.settle([build_release(taken)])
            found.append(store.cost(lambda store: store.settle([build_release(taken), build_completion(taken)])))  # noqa: B023

    assert len(set(found[1:])) == 1


def test_finding_costs_no_more_than_looking_at_a_part_of_the_jobs(both: Both) -> None:
    stopped = Query(limit=10, states=frozenset({State.FAILED}), newest_first=True)

    for query in (Query(limit=10), Query(limit=10, newest_first=True), stopped):
        _, many = costs(both, lambda store: store.find(query))  # noqa: B023

        assert many <= MOST_FOUND


@pytest.mark.parametrize("name", shared_redis_names())
def test_a_claim_takes_back_and_lets_in_only_so_many_at_a_time(servers: Servers, name: str) -> None:
    """Slow: thousands of jobs are scheduled and claimed."""
    found = []
    for number in amount((2_000, 6_000), (1_500, 3_000)):
        clock = Clock()
        with new_place(servers.shared_redis(name).url) as place, closing(CountingStore(place, clock)) as store:
            put(store, number, NewJob("work"))
            take_all(store, number, "work")
            put(store, number, NewJob("other", delay=3600))
            clock.advance(3600)

            found.append(store.cost(lambda store: take_one(store, types=("work", "other"))))

            assert store.stats().total("running") == number - 1_000 + 1
            assert faults(place) == {}

    first, second = found
    assert first == second
