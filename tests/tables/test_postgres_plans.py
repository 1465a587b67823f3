"""With every query plan, a claim takes the first rows up to its limit, and only the holder can settle."""

from collections.abc import Iterator
from typing import Any

import pytest

from tenure.testing.conformance.building import build_completion, build_release, ids_of, take
from tenure.testing.conformance.racing import run_concurrently
from tests.servers.postgres import Server
from tests.tables.postgres_shop import ORDERS, Shop, new_shop

MODES: dict[str, dict[str, Any]] = {"mapped": {"columns": {"state": "status"}}, "sidecar": {"sidecar": True}}
SWITCHED_OFF = [
    ("nestloop",),
    ("nestloop", "indexscan"),
    ("nestloop", "hashjoin"),
    ("nestloop", "mergejoin"),
    ("hashjoin", "mergejoin"),
    ("indexscan", "bitmapscan", "indexonlyscan"),
    ("sort", "material", "memoize", "hashagg"),
]
"""Planner settings that disable plan types."""


@pytest.fixture
def shop(postgres: Server) -> Iterator[Shop]:
    with new_shop(postgres) as shop:
        shop.execute(ORDERS)
        yield shop


def planned(shop: Shop, off: tuple[str, ...]) -> str:
    """Return a URL with these planner settings."""
    settings = {**{f"enable_{each}": "off" for each in off}, "enable_seqscan": "on", "plan_cache_mode": "auto"}
    return f"{shop.url}&options=" + "%20".join(f"-c%20{name}%3D{value}" for name, value in settings.items())


@pytest.mark.parametrize("mode", MODES)
def test_no_more_are_claimed_than_asked_for_and_the_first_ones(shop: Shop, mode: str) -> None:
    options = {"where": "true", **MODES[mode]}
    shop.fit(**options)
    shop.execute("insert into S.orders (id) select generate_series(1, 300)")
    seen = []
    for number, off in enumerate(SWITCHED_OFF):
        table = shop.open(url=planned(shop, off), **options)
        first = [str(20 * number + each) for each in range(1, 21)]

        taken = take(table, limit=20)

        landed = table.settle([build_release(each) for each in taken[:7]])
        again = take(table, limit=7)
        landed += table.settle([build_completion(each) for each in [*again, *taken[7:]]])
        seen.append((ids_of(taken) == first, ids_of(again) == first[:7], all(landed), len(landed)))

    assert seen == [(True, True, True, 27)] * len(SWITCHED_OFF)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("off", SWITCHED_OFF[:3])
def test_claims_at_the_same_time_share_the_rows(shop: Shop, mode: str, off: tuple[str, ...]) -> None:
    options = {"where": "true", **MODES[mode]}
    shop.fit(**options)
    shop.execute("insert into S.orders (id) select generate_series(1, 120)")
    table = shop.open(url=planned(shop, off), **options)

    taken = [each for part in run_concurrently([lambda: take(table, limit=15)] * 8) for each in part]

    assert sorted(map(int, ids_of(taken))) == list(range(1, 121))
