"""Human-readable durations and timestamps."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tenure.core.durations import format_duration, format_timestamp

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

DURATIONS = [
    (0, "0 s"),
    (0.4, "0 s"),
    (1, "1 s"),
    (59.4, "59 s"),
    (59.9, "1 min"),
    (200, "3 min 20 s"),
    (3_600, "1 h"),
    (3_601, "1 h"),
    (3_660, "1 h 1 min"),
    (86_399, "23 h 59 min"),
    (2 * 86_400 + 3 * 3_600 + 59, "2 d 3 h"),
    (86_400 + 59 * 60, "1 d"),
    (1_000 * 86_400, "1,000 d"),
]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_moment_is_shown_in_utc_with_how_far_away_it_is() -> None:
    east = (NOW + timedelta(seconds=90)).astimezone(timezone(timedelta(hours=5)))

    assert format_timestamp(east, NOW) == "2026-01-01T12:01:30Z (in 1 min 30 s)"
    assert format_timestamp(NOW - timedelta(seconds=4), NOW) == "2026-01-01T11:59:56Z (4 s ago)"
    assert format_timestamp(NOW, NOW) == "2026-01-01T12:00:00Z (0 s ago)"
