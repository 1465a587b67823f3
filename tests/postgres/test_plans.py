"""Under every query plan, a claim takes no more jobs than requested, and a settlement ends only held claims."""

from itertools import combinations

import pytest

from tenure.backends.postgres import PostgreSQL
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    build_record,
    build_release,
    ids_of,
    take,
)
from tenure.testing.conformance.racing import run_concurrently
from tests.postgres.stores import Place
from tests.tiers import only_in_all

JOINS_AND_SCANS = ("nestloop", "hashjoin", "mergejoin", "seqscan", "indexscan", "bitmapscan", "tidscan")
OTHERS = ("hashagg", "indexonlyscan", "material", "memoize", "sort", "incremental_sort", "presorted_aggregate")

SWITCHED_OFF = [
    *(off for number in range(4) for off in combinations(JOINS_AND_SCANS, number)),
    *((other,) for other in OTHERS),
    (*JOINS_AND_SCANS, *OTHERS),
]
"""The planner methods to disable."""


def options(off: tuple[str, ...], **others: str) -> str:
    """Return connection options that disable the given planner methods and enable the rest."""
    settings = {f"enable_{each}": "off" if each in off else "on" for each in (*JOINS_AND_SCANS, *OTHERS)}
    settings |= {"plan_cache_mode": "force_custom_plan", **others}
    return "&options=" + "%20".join(f"-c%20{name}%3D{value}" for name, value in settings.items())


@only_in_all
def test_under_every_combination_of_planner_switches_no_more_are_claimed_than_asked_for(
    place: Place, store: PostgreSQL
) -> None:
    """Slow: the planner is switched in every combination."""
    wrong = []
    for off in SWITCHED_OFF:
        store.enqueue([build_record(type, priority=n % 3) for type in ("work", "other") for n in range(15)])
        planned = place.open(options(off))

        taken = take(planned, limit=7)

        running = len(place.execute("select id from S.jobs where state = 'running'"))
        landed = planned.settle([build_completion(each) for each in taken])
        rest = take(planned, limit=1000)
        landed += planned.settle([build_completion(each) for each in rest])
        planned.close()
        if (len(taken), running, len(rest), all(landed)) != (7, 7, 23, True):
            wrong.append((off, len(taken), running, len(rest), landed))

    assert wrong == []


@pytest.mark.parametrize("off", [("nestloop",), ("nestloop", "indexscan"), ("hashjoin", "mergejoin"), ("seqscan",)])
def test_claims_at_the_same_time_share_the_jobs_under_every_plan(
    place: Place, store: PostgreSQL, off: tuple[str, ...]
) -> None:
    ids = [each.id for each in store.enqueue([build_record(n % 2 * "other" or "work") for n in range(200)])]
    planned = place.open(options(off))

    taken = [each for part in run_concurrently([lambda: take(planned, limit=30)] * 8) for each in part]

    planned.close()
    assert sorted(ids_of(taken)) == sorted(ids)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan", "auto"])
def test_whatever_is_kept_of_a_plan_jobs_are_claimed_and_settled_alike(
    place: Place, store: PostgreSQL, mode: str
) -> None:
    store.enqueue([build_record(priority=n % 5) for n in range(400)])
    planned = place.open(options((), plan_cache_mode=mode))

    numbers = []
    for limit in (1, 2, 3, 5, 8, 13, 21, 34):
        taken = take(planned, limit=limit)
        half = len(taken) // 2
        numbers.append(len(taken))
        assert all(
            planned.settle([build_release(each) for each in taken[:half]] + [build_completion(t) for t in taken[half:]])
        )
        assert not any(planned.settle([build_failure(each) for each in taken]))

    planned.close()
    assert numbers == [1, 2, 3, 5, 8, 13, 21, 34]
