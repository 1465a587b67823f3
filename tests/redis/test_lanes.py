"""A script that finds outdated data about a lane corrects it."""

from tenure.core.operations import Move
from tenure.testing import Clock
from tenure.testing.conformance.building import build_record, take, take_one
from tests.redis.stores import Place


def test_a_lane_whose_scheduled_jobs_are_gone_is_not_looked_into_again(place: Place) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    store.enqueue([build_record(id="a", delay=10), build_record(id="b")])
    store.move(["a"], Move.CANCEL)
    clock.advance(10)

    take_one(store)

    assert place.execute("ZCARD", place.key("upcoming")) == 0
    store.close()


def test_a_lane_whose_due_jobs_are_gone_is_closed_by_the_next_claim(place: Place) -> None:
    store = place.open()
    store.enqueue([build_record(id="a")])
    store.move(["a"], Move.CANCEL)
    was_open = place.execute("SCARD", place.key("open"))

    take(store)

    assert (was_open, place.execute("SCARD", place.key("open"))) == (1, 0)
    store.close()
