"""The fixtures of the suite, built on the `harness` fixture of the store."""

from collections.abc import Callable, Iterator

import pytest

from tenure.backends.protocol import Claiming
from tenure.testing import ClaimingHarness, Clock

for name in ("building", "machine", "racing"):
    pytest.register_assert_rewrite(f"tenure.testing.conformance.{name}")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(harness: ClaimingHarness, clock: Clock) -> Iterator[Claiming]:
    store = harness.open(clock)
    yield store
    store.close()


@pytest.fixture
def given_jobs(harness: ClaimingHarness, store: Claiming, clock: Clock) -> Callable[[int], list[str]]:
    return lambda number: harness.given_jobs_by(store, number, clock)
