"""The cost of an operation does not depend on the number of stored jobs: measured in pages touched, not in time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.core.operations import Extension, Purge, Query
from tenure.testing.conformance.building import (
    Taken,
    as_taken,
    build_completion,
    build_failure,
    build_record,
    build_release,
    extend,
    request,
    take,
)
from tests.postgres.crowd import Crowd
from tests.postgres.functions import Functions, functions_of, hold_of
from tests.postgres.stores import Place, new_place
from tests.servers.servers import Servers, shared_names
from tests.tiers import amount

FEW = Crowd(queued=2_000, scheduled=1_000, others=1_000, running=1_000, finished=2_000)
SOME = Crowd(queued=40_000, scheduled=20_000, others=20_000, running=10_000, finished=40_000)
MANY = Crowd(queued=1_000_000, scheduled=100_000, others=100_000, running=10_000, finished=1_000_000)

OTHERS = 25
"""Pages touched occasionally, independent of the number of jobs: about twenty when a table grows, some by a vacuum."""
DEEPER = 2.0
"""Allowed growth in pages for many jobs: an index of a million entries has up to twice the levels of an index of a
thousand. Observed: 1.1 to 1.3, and 1.4 for lookups."""
A_LONG_LEASE = 86_400
"""Seconds of the leases: no later test of this module may find an expired lease."""
IN_A_PAGE = 20
"""The minimum number of running jobs."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A store with jobs."""

    place: Place
    store: PostgreSQL

    def cost(self, action: Callable[[PostgreSQL], object]) -> int:
        """Return the number of pages touched by the second run of an operation, when all caches are warm."""
        action(self.store)
        return self.place.buffers(self.store, lambda: action(self.store))


@contextmanager
def filled(server: str, crowd: Crowd) -> Iterator[Filled]:
    with new_place(server) as place:
        store = place.open()
        store.migrate()
        crowd.fill(place)
        yield Filled(place, store)
        store.close()


@pytest.fixture(scope="module", params=shared_names())
def both(request: pytest.FixtureRequest, servers: Servers) -> Iterator[tuple[Filled, Filled]]:
    """A store with few jobs, and one with many: in tier 2 a million, on the newest server version."""
    url = servers.shared(request.param).url
    crowd = amount(MANY, SOME) if request.param == shared_names()[-1] else SOME
    with filled(url, FEW) as few, filled(url, crowd) as many:
        yield few, many


def claim(store: PostgreSQL, limit: int, **options: tuple[str, ...]) -> list[Taken]:
    asked = request(limit=limit, lease=A_LONG_LEASE, **options)
    taken = [as_taken(job, asked) for job in store.claim(asked).jobs]
    assert len(taken) == limit
    return taken


@pytest.mark.parametrize("limit", [1, 100])
@pytest.mark.parametrize(
    "asked",
    [{}, {"types": ("work",)}, {"queues": ("default",)}, {"queues": ("default",), "types": ("work", "nothing")}],
    ids=str,
)
def test_a_claim_touches_no_more_pages_among_many_jobs_than_among_few(
    both: tuple[Filled, Filled], limit: int, asked: dict[str, tuple[str, ...]]
) -> None:
    """Slow: the first of these tests fills a store with a million jobs."""
    few, many = (each.cost(lambda store: claim(store, limit, **asked)) for each in both)

    assert many <= few * DEEPER + OTHERS
    assert many <= 60 + 40 * limit


@pytest.mark.parametrize("limit", [1, 100])
def test_a_settlement_touches_no_more_pages_however_it_ends(both: tuple[Filled, Filled], limit: int) -> None:
    for ending in (build_completion, build_failure, build_release):
        costs = []
        for each in both:
            first, second = claim(each.store, limit), claim(each.store, limit)
            each.store.settle([ending(taken) for taken in first])
            costs.append(each.place.buffers(each.store, lambda: each.store.settle([ending(t) for t in second])))  # noqa: B023

        few, many = costs
        assert many <= few * DEEPER + OTHERS
        assert many <= 60 + 60 * limit


def test_the_functions_touch_no_more_pages_among_many_jobs_than_among_few(both: tuple[Filled, Filled]) -> None:
    costs = []
    for each in both:
        with functions_of(each.place) as sql:
            pass_through(sql)
            costs.append(each.place.buffers(each.store, lambda: pass_through(sql)))

    few, many = costs
    assert many <= few * DEEPER + OTHERS


def pass_through(sql: Functions) -> None:
    """Claim ten jobs, settle them with every outcome, enqueue ten, and return the pages touched."""
    jobs: list[dict[str, Any]] = [{"type": "work", "key": f"key-{uuid4()}"} for _ in range(10)]
    sql.enqueue(*jobs)
    claims = sql.rows("claim", "w", ["default"], ["work"], max_jobs=10)
    outcomes = [{"outcome": "completed"}, {"outcome": "failed", "error": "broken"}, {"outcome": "released"}]
    assert all(sql.settle(*({**hold_of(claim), **outcomes[n % 3]} for n, claim in enumerate(claims))))
    assert len(claims) == 10
    sql.connection.execute("select pg_stat_force_next_flush()")


def test_what_is_lost_or_was_settled_before_is_looked_up_at_the_same_cost(both: tuple[Filled, Filled]) -> None:
    costs = []
    for each in both:
        taken = claim(each.store, 100)
        each.store.settle([build_completion(one) for one in taken])
        costs.append(each.cost(lambda store: store.settle([build_failure(one) for one in taken])))  # noqa: B023

    few, many = costs
    assert many <= few * DEEPER + OTHERS


@pytest.mark.parametrize("held", [100, 0], ids=["held", "lost"])
def test_an_extension_touches_no_more_pages_whether_the_claims_are_held_or_lost(
    both: tuple[Filled, Filled], held: int
) -> None:
    costs = []
    for each in both:
        taken = claim(each.store, 100)
        each.store.settle([build_completion(one) for one in taken[held:]])
        extensions = [Extension(hold=one.hold, lease=A_LONG_LEASE) for one in taken]
        costs.append(each.cost(lambda store: store.extend(extensions)))  # noqa: B023

    few, many = costs
    assert many <= few * DEEPER + OTHERS
    assert many <= 60 + 60 * len(taken)


@pytest.mark.parametrize(
    "action",
    [
        lambda store: store.reap(),
        lambda store: take(store, types=("nobody",)),
        lambda store: store.enqueue([build_record() for _ in range(100)]),
        lambda store: store.find(Query(limit=100, ids=("queued-7", "finished-7", "none"))),
        lambda store: store.purge(Purge(older_than=86_400, limit=100)),
        lambda store: extend(store, take(store, lease=A_LONG_LEASE)[0].hold),
    ],
    ids=["reap", "claim of nothing", "enqueue", "find by id", "purge of nothing", "extend"],
)
def test_other_operations_touch_no_more_pages(
    both: tuple[Filled, Filled], action: Callable[[PostgreSQL], object]
) -> None:
    few, many = (each.cost(action) for each in both)

    assert many <= few * DEEPER + OTHERS


def test_find_reads_all_that_run_and_else_no_more_pages(both: tuple[Filled, Filled]) -> None:
    few, many = (each.cost(lambda store: store.find(Query(limit=100))) for each in both)

    assert many <= few * DEEPER + OTHERS + MANY.running / IN_A_PAGE


def test_a_reap_of_what_ran_out_touches_no_more_pages(both: tuple[Filled, Filled]) -> None:
    costs = []
    for each in both:
        for _ in range(2):
            taken = claim(each.store, 100)
            ids = [one.id for one in taken]
            each.place.execute("update S.jobs set leased_until = now() where id = any (%s)", ids)
            cost = each.place.buffers(each.store, each.store.reap)
        costs.append(cost)

    few, many = costs
    assert many <= few * DEEPER + OTHERS
