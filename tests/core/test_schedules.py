"""Outstanding slots of a schedule."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tenure.core.job import NewJob
from tenure.core.operations import Slot
from tenure.core.schedules import check_schedule, outstanding_slots
from tenure.errors import ConfigurationError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def slot(hours: float, id: str = "a") -> Slot:
    return Slot(at=NOON + timedelta(hours=hours), record=NewJob("work").record(id))


def test_slots_later_than_the_last_are_outstanding_the_earliest_first() -> None:
    assert outstanding_slots([slot(2), slot(0), slot(1), slot(-1)], NOON) == [slot(1), slot(2)]


def test_of_several_slots_at_one_moment_the_first_given_is_outstanding() -> None:
    assert outstanding_slots([slot(2, "a"), slot(1, "b"), slot(1, "c"), slot(2, "d")], NOON) == [
        slot(1, "b"),
        slot(2, "a"),
    ]


def test_without_slots_none_is_outstanding() -> None:
    assert outstanding_slots([], NOON) == []


def test_a_slot_is_in_utc() -> None:
    local = NOON.astimezone(timezone(timedelta(hours=5)))

    assert Slot(at=local, record=slot(0).record) == slot(0)
    assert Slot(at=local, record=slot(0).record).at.tzinfo is UTC


def test_a_request_that_no_store_takes_is_refused() -> None:
    assert check_schedule("hourly", [slot(1)] * 1_000) == "hourly"
    with pytest.raises(ConfigurationError, match="the number of slots must be 0 to 1,000, not 1001"):
        check_schedule("hourly", [slot(1)] * 1_001)
    with pytest.raises(ConfigurationError, match="the name of a schedule must be a string, not 7"):
        check_schedule(7, [])
