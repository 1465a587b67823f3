"""The counts of many queues: returned in pages, and deleted as fast as they are added."""

from contextlib import closing

import pytest

from tenure.backends.redis import Redis
from tenure.backends.redis import read as reading
from tenure.core.operations import Event
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record
from tests.redis.stores import Place

DAY = 86_400


def enqueue_into(store: Redis, number: int) -> None:
    """Store a job in each of the queues."""
    store.enqueue([build_record(queue=f"queue-{each}") for each in range(number)])


@pytest.mark.parametrize("most", [1, 6, 7, 12, 13])
def test_counts_that_are_told_in_parts_are_told_once_each(
    store: Redis, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    enqueue_into(store, 12)
    monkeypatch.setattr(reading, "COUNTS_BATCH", most)

    counts = store.counts(3600)

    assert sorted(count.queue for count in counts) == sorted(f"queue-{each}" for each in range(12))
    assert {(count.event, count.number) for count in counts} == {(Event.ENQUEUED, 1)}


def test_counts_of_other_days_do_not_pile_up_however_many_queues(place: Place) -> None:
    clock = Clock()
    with closing(place.open(clock=clock)) as store:
        for _ in range(5):
            enqueue_into(store, 200)
            clock.advance(2 * DAY)

    assert place.execute("ZCARD", place.key("minutes")) <= 2 * 200
    assert place.execute("HLEN", place.key("counts")) <= 2 * 200
