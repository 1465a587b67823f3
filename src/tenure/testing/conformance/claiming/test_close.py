"""Closing a store."""

from tenure.backends.protocol import Claiming
from tenure.testing import ClaimingHarness
from tenure.testing.conformance.building import ids_of, take


def test_closing_twice_does_nothing_more(store: Claiming) -> None:
    store.close()
    store.close()


def test_what_was_stored_is_there_for_the_next_who_opens(harness: ClaimingHarness) -> None:
    ids = harness.given_jobs(2)
    harness.open().close()

    assert ids_of(take(harness.open(), limit=2)) == ids
