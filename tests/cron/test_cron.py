"""The slots of a schedule, through all clock changes, and which of them get a job."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tenure.client.cron import Missed, Schedule
from tenure.core.checks import name as checked_name
from tenure.core.operations import LARGEST_BATCH
from tenure.errors import ConfigurationError
from tests.tiers import amount

BERLIN, NEW_YORK, LORD_HOWE, SAO_PAULO = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"

CHANGES = [
    # zone, time of the clock change
    (BERLIN, "2026-03-29T01:00"),  # 02:00 becomes 03:00
    (BERLIN, "2026-10-25T01:00"),  # 03:00 becomes 02:00
    (NEW_YORK, "2026-03-08T07:00"),  # 02:00 becomes 03:00
    (NEW_YORK, "2026-11-01T06:00"),  # 02:00 becomes 01:00
    (LORD_HOWE, "2026-10-03T15:30"),  # 02:00 becomes 02:30
    (LORD_HOWE, "2026-04-04T15:00"),  # 02:00 becomes 01:30
    (SAO_PAULO, "2018-11-04T03:00"),  # 00:00 becomes 01:00
    (SAO_PAULO, "2018-02-18T02:00"),  # 00:00 becomes 23:00 of the day before
]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def schedule(expression: str, zone: str = "UTC", missed: Missed = "all") -> Schedule:
    return Schedule(name="nightly", expression=expression, timezone=zone, missed=missed)


def successive(of: Schedule, after: datetime) -> Iterator[datetime]:
    """Yield the slots that repeated calls of `next_after` return."""
    while True:
        after = of.next_after(after)
        yield after


FIXED = [
    # zone, expression, day of the change: the slots around it
    (BERLIN, "30 2 * * *", "2026-03-29", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
    (BERLIN, "30 2 * * *", "2026-10-25", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
    (BERLIN, "0 2 * * *", "2026-03-29", ["03-28 01:00", "03-29 01:00", "03-30 00:00"]),
    (BERLIN, "0 3 * * *", "2026-10-25", ["10-24 01:00", "10-25 02:00", "10-26 02:00"]),
    (NEW_YORK, "30 2 * * *", "2026-03-08", ["03-07 07:30", "03-08 07:00", "03-09 06:30"]),
    (NEW_YORK, "30 1 * * *", "2026-11-01", ["10-31 05:30", "11-01 05:30", "11-02 06:30"]),
    (LORD_HOWE, "15 2 * * *", "2026-10-04", ["10-02 15:45", "10-03 15:30", "10-04 15:15"]),
    (LORD_HOWE, "45 1 * * *", "2026-04-05", ["04-03 14:45", "04-04 14:45", "04-05 15:15"]),
    (SAO_PAULO, "@daily", "2018-11-04", ["11-03 03:00", "11-04 03:00", "11-05 02:00"]),
    (SAO_PAULO, "30 23 * * *", "2018-02-18", ["02-17 01:30", "02-18 01:30", "02-19 02:30"]),
]


@pytest.mark.parametrize(("zone", "expression", "day", "expected"), FIXED)
def test_a_fixed_time_that_is_skipped_or_repeated_is_due_once(
    zone: str, expression: str, day: str, expected: list[str]
) -> None:
    found = schedule(expression, zone).due(at(day) - timedelta(hours=36), at(day) + timedelta(hours=36))

    assert [f"{slot:%m-%d %H:%M}" for slot in found] == expected


@settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=amount(60, 15),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    zone=some.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, SAO_PAULO]),
    hour=some.sampled_from([0, 1, 2, 3, 23]) | some.integers(0, 23),
    minute=some.integers(0, 59),
)
def test_a_fixed_time_is_due_exactly_once_on_each_local_day_of_a_year(zone: str, hour: int, minute: int) -> None:
    """Slow: every day of a year in many time zones."""
    found = schedule(f"{minute} {hour} * * *", zone).due(at("2017-12-30"), at("2019-01-02"))

    days = [slot.astimezone(ZoneInfo(zone)).date() for slot in found]
    of_the_year = [day for day in days if day.year == 2018]
    assert of_the_year == [date(2018, 1, 1) + timedelta(days=day) for day in range(365)]


COLLAPSED = [
    # expression: the slots of 29 March 2026 in Berlin, where the clocks skip 02:00 to 03:00
    ("0,30 2 * * *", ["01:00:00"]),
    ("30 2,3 * * *", ["01:00:00", "01:30:00"]),
    ("0 1,2,3 * * *", ["00:00:00", "01:00:00"]),
    ("15 30 2 * * *", ["01:00:00"]),
]


@pytest.mark.parametrize(("expression", "expected"), COLLAPSED)
def test_fixed_times_that_fall_on_the_end_of_a_gap_are_one_slot(expression: str, expected: list[str]) -> None:
    found = schedule(expression, BERLIN).due(at("2026-03-28T23:00"), at("2026-03-29T22:00"))

    assert [f"{slot:%H:%M:%S}" for slot in found] == expected


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_a_field_for_seconds_changes_nothing_about_a_fixed_time(zone: str, change: str) -> None:
    after, until = at(change) - timedelta(days=2), at(change) + timedelta(days=2)

    assert schedule("0 30 1,2 * * *", zone).due(after, until) == schedule("30 1,2 * * *", zone).due(after, until)


@pytest.mark.parametrize(("zone", "change"), CHANGES)
@pytest.mark.parametrize("minutes", [5, 15, 30])
def test_an_interval_is_as_long_in_real_time_when_the_clocks_change(zone: str, change: str, minutes: int) -> None:
    after, until = at(change) - timedelta(hours=24), at(change) + timedelta(hours=24)

    found = schedule(f"*/{minutes} * * * *", zone).due(after, until)

    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=minutes)}
    assert len(found) == 48 * 60 // minutes


Reading = Callable[[datetime], bool]

INTERVALS: list[tuple[str, Reading]] = [
    # expression, wall time of the slot
    ("*/15 * * * *", lambda wall: wall.minute % 15 == 0),
    ("0 * * * *", lambda wall: wall.minute == 0),
    ("0 */5 * * *", lambda wall: wall.minute == 0 and wall.hour % 5 == 0),
    ("*/15 5 * * *", lambda wall: wall.minute % 15 == 0 and wall.hour == 5),
    ("*/10 1-2 * * *", lambda wall: wall.minute % 10 == 0 and wall.hour in {1, 2}),
    ("40 * * * SUN", lambda wall: wall.minute == 40 and wall.isoweekday() == 7),
]


@pytest.mark.parametrize(("zone", "change"), CHANGES)
@pytest.mark.parametrize(("expression", "matches"), INTERVALS)
def test_an_interval_is_due_at_every_moment_at_which_the_clock_matches(
    zone: str, change: str, expression: str, matches: Reading
) -> None:
    begin = at(change) - timedelta(hours=36)
    minutes = [begin + timedelta(minutes=minute) for minute in range(1, 72 * 60 + 1)]

    found = schedule(expression, zone).due(begin, minutes[-1])

    assert found == [minute for minute in minutes if matches(minute.astimezone(ZoneInfo(zone)))]


CALENDAR = [
    # expression: the first slots after noon of 15 November 2026, a Sunday, in UTC
    ("0 0 29 2 *", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
    ("0 0 * 2 MON#5", ["2044-02-29 00:00:00", "2072-02-29 00:00:00", "2112-02-29 00:00:00"]),
    ("0 12 * * 1#1", ["2026-12-07 12:00:00", "2027-01-04 12:00:00"]),
    ("0 12 * * 5L", ["2026-11-27 12:00:00", "2026-12-25 12:00:00"]),
    ("0 0 L * *", ["2026-11-30 00:00:00", "2026-12-31 00:00:00", "2027-01-31 00:00:00", "2027-02-28 00:00:00"]),
    ("0 0 LW * *", ["2026-11-30 00:00:00", "2026-12-31 00:00:00", "2027-01-29 00:00:00"]),
    ("0 0 13 12 FRI", ["2026-12-04 00:00:00", "2026-12-11 00:00:00", "2026-12-13 00:00:00"]),
    ("0 0 */13 * FRI", ["2026-11-27 00:00:00", "2027-01-01 00:00:00"]),
    ("0 0 * * 7", ["2026-11-22 00:00:00"]),
    ("*/30 59 23 31 dec *", ["2026-12-31 23:59:00", "2026-12-31 23:59:30", "2027-12-31 23:59:00"]),
    ("@yearly", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
    ("@annually", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
    ("@monthly", ["2026-12-01 00:00:00", "2027-01-01 00:00:00"]),
    ("@weekly", ["2026-11-22 00:00:00", "2026-11-29 00:00:00"]),
    ("@daily", ["2026-11-16 00:00:00", "2026-11-17 00:00:00"]),
    ("@midnight", ["2026-11-16 00:00:00", "2026-11-17 00:00:00"]),
    ("@hourly", ["2026-11-15 13:00:00", "2026-11-15 14:00:00"]),
]


@pytest.mark.parametrize(("expression", "expected"), CALENDAR)
def test_days_are_those_of_the_calendar(expression: str, expected: list[str]) -> None:
    found = islice(successive(schedule(expression), at("2026-11-15T12:00")), len(expected))

    assert [f"{slot:%Y-%m-%d %H:%M:%S}" for slot in found] == expected


def test_a_slot_is_after_the_moment_and_in_utc() -> None:
    of = schedule("0 3 * * *", BERLIN)

    slot = of.next_after(at("2026-11-15T01:59:59.999999"))

    assert (slot, slot.tzinfo) == (at("2026-11-15T02:00"), UTC)
    assert of.next_after(slot) == at("2026-11-16T02:00")


EXPRESSIONS = [
    "30 2 * * *",
    "*/15 * * * *",
    "0 */2 * * *",
    "5-55/10 1-3 * * *",
    "*/20 2 * * *",
    "*/20 * * * * *",
    "* 30 1,2 * * *",
]

around_a_change = some.integers(-7200 * 10**6, 7200 * 10**6).map(lambda each: timedelta(microseconds=each))
near_moments = some.lists(around_a_change, min_size=3, max_size=3).map(sorted)
changes = some.sampled_from(CHANGES)
expressions = some.sampled_from(EXPRESSIONS)
anything = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=amount(150, 40),
    suppress_health_check=[HealthCheck.too_slow],
)


@anything
@given(change=changes, expression=expressions, near=near_moments)
def test_slots_are_the_same_however_the_time_is_cut(
    change: tuple[str, str], expression: str, near: list[timedelta]
) -> None:
    of = schedule(expression, change[0])
    first, second, third = (at(change[1]) + each for each in near)

    assert of.due(first, second) + of.due(second, third) == of.due(first, third)


@anything
@given(change=changes, expression=expressions, near=near_moments)
def test_asking_for_the_next_slot_finds_those_that_become_due(
    change: tuple[str, str], expression: str, near: list[timedelta]
) -> None:
    of = schedule(expression, change[0])
    after = at(change[1]) + near[0]
    until = min(at(change[1]) + near[1], after + timedelta(minutes=20))

    found = of.due(after, until)

    assert found == list(takewhile(lambda slot: slot <= until, successive(of, after)))
    assert all(earlier < later for earlier, later in pairwise(found))


@anything
@given(change=changes, expression=expressions, near=near_moments)
def test_the_latest_slot_is_the_last_of_all(change: tuple[str, str], expression: str, near: list[timedelta]) -> None:
    zone, moment = change
    first, _, third = (at(moment) + each for each in near)

    assert schedule(expression, zone, "last").due(first, third) == schedule(expression, zone).due(first, third)[-1:]


LATEST = [
    # expression, now: the latest slot, while Berlin's clocks show 02:00 to 03:00 twice, first from 00:00 UTC
    ("30 2 * * *", "00:29:59", "2026-10-24 00:30"),
    ("30 2 * * *", "00:30:00", "2026-10-25 00:30"),
    ("30 2 * * *", "01:10:00", "2026-10-25 00:30"),
    ("30 2 * * *", "01:40:00", "2026-10-25 00:30"),
    ("45 * * * *", "01:10:00", "2026-10-25 00:45"),
    ("45 * * * *", "01:50:00", "2026-10-25 01:45"),
    ("*/45 2 * * *", "01:40:00", "2026-10-25 01:00"),
]


@pytest.mark.parametrize(("expression", "now", "expected"), LATEST)
def test_the_latest_slot_is_found_within_a_repeated_hour(expression: str, now: str, expected: str) -> None:
    found = schedule(expression, BERLIN, "last").due(at("2026-10-01"), at(f"2026-10-25T{now}"))

    assert [f"{slot:%Y-%m-%d %H:%M}" for slot in found] == [expected]


@anything
@given(change=changes, expression=expressions, near=near_moments)
def test_punctual_slots_are_those_of_the_last_minute(
    change: tuple[str, str], expression: str, near: list[timedelta]
) -> None:
    zone, moment = change
    first, _, third = (at(moment) + each for each in near)

    punctual = schedule(expression, zone, "skip").due(first, third)

    every = schedule(expression, zone).due(first, third)
    assert punctual == [slot for slot in every if slot >= third - timedelta(seconds=60)]


POLICIES: list[tuple[Missed, str, list[str]]] = [
    # policy, now: slots since 09:59 of a task that is due each hour
    ("skip", "2026-01-01T09:59:59", []),
    ("skip", "2026-01-01T10:00:00", ["10"]),
    ("skip", "2026-01-01T10:01:00", ["10"]),
    ("skip", "2026-01-01T10:01:00.000001", []),
    ("skip", "2026-01-01T12:00:30", ["12"]),
    ("last", "2026-01-01T09:59:59", []),
    ("last", "2026-01-01T10:00:00", ["10"]),
    ("last", "2026-01-01T12:30:00", ["12"]),
    ("all", "2026-01-01T09:59:59", []),
    ("all", "2026-01-01T10:00:00", ["10"]),
    ("all", "2026-01-01T12:30:00", ["10", "11", "12"]),
]


@pytest.mark.parametrize(("missed", "now", "expected"), POLICIES)
def test_what_is_given_out_of_the_missed_slots(missed: Missed, now: str, expected: list[str]) -> None:
    found = schedule("@hourly", missed=missed).due(at("2026-01-01T09:59"), at(now))

    assert [f"{slot:%H}" for slot in found] == expected


@pytest.mark.parametrize("missed", ["skip", "last", "all"])
def test_a_slot_that_was_given_out_is_not_due_again_even_if_the_clock_is_set_back(missed: Missed) -> None:
    of = schedule("@hourly", missed=missed)
    slot = at("2026-01-01T10:00")

    assert of.due(slot, slot + timedelta(seconds=30)) == []
    assert of.due(slot, slot - timedelta(hours=2)) == []


DOWNTIME: list[tuple[Missed, int]] = [("skip", 61), ("last", 1), ("all", LARGEST_BATCH)]


@pytest.mark.parametrize(("missed", "number"), DOWNTIME)
@pytest.mark.parametrize("zone", ["UTC", BERLIN])
def test_a_downtime_of_decades_gives_out_no_more_than_a_batch(missed: Missed, number: int, zone: str) -> None:
    found = schedule("* * * * * *", zone, missed).due(at("1980-01-01"), at("2026-10-25T01:30"))

    assert len(found) == number


def test_what_a_batch_leaves_over_comes_with_the_next_calls() -> None:
    of = schedule("* * * * *")
    begin = at("2026-01-01")
    end = begin + timedelta(minutes=1_500)

    first = of.due(begin, end)
    second = of.due(first[-1], end)

    assert [len(first), len(second)] == [LARGEST_BATCH, 500]
    assert first + second == [begin + timedelta(minutes=minute) for minute in range(1, 1_501)]


def test_the_id_of_a_slot_is_the_same_in_every_zone() -> None:
    of = schedule("0 3 * * *", BERLIN)
    slot = at("2026-11-15T02:00")

    assert of.job_id(slot) == "cron:nightly:2026-11-15T02:00:00Z"
    assert of.job_id(slot.astimezone(ZoneInfo(NEW_YORK))) == of.job_id(slot)


def test_the_longest_name_makes_an_id_that_every_store_keeps() -> None:
    longest = Schedule(name="x" * 174, expression="@daily")

    assert checked_name("id", longest.job_id(at("2026-11-15"))).startswith("cron:xxx")
    with pytest.raises(
        ConfigurationError, match=r"^name must have 1 to 174 characters, since job ids contain it, not 175"
    ):
        Schedule(name="x" * 175, expression="@daily")


def test_space_and_pickling_make_no_other_schedule() -> None:
    of = schedule(" 0  3 *\t* * ", BERLIN)

    assert of == schedule("0 3 * * *", BERLIN)
    assert pickle.loads(pickle.dumps(of)) == of  # noqa: S301 - our own


BAD_EXPRESSIONS = [
    ("60 * * * *", r"'60 \* \* \* \*' has an invalid minute, '60'; use 0 to 59, or"),
    ("0 25 * * *", "has an invalid hour, '25'; use 0 to 23, or"),
    ("0 0 0 * *", "has an invalid day of month, '0'; use 1 to 31, L for the last day or LW"),
    ("0 0 * 13 *", "has an invalid month, '13'; use 1 to 12 or JAN to DEC, or"),
    ("0 0 * * 8", "has an invalid day of week, '8'; use 0 to 7 or SUN to SAT, 1#2"),
    ("0 0 * * FRI-MON", "has an invalid day of week, 'FRI-MON'"),
    ("60 0 0 * * *", "has an invalid second, '60'"),
    ("*/0 * * * *", r"has an invalid minute, '\*/0'"),
    ("5- * * * *", "has an invalid minute, '5-'"),
    ("1, * * * *", "has an invalid minute, '1,'"),
    (f"{'1' * 5_000} * * * *", "has an invalid minute, '111"),
    ("* * *", r"must have 5 fields \(minute, .*\), or 6 with the second first, not 3"),
    ("* * * * * * *", "must have 5 fields .* not 7"),
    (" ", "must have 5 fields .* not 0"),
    ("@reboot", "'@reboot' is not an alias; use @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"),
    ("0 0 30 2 *", r"'0 0 30 2 \*' is never due; use a day and a time that exist"),
    ("0 0 31 4,6,9,11 *", "is never due"),
    ("0 0 */30 * 1#2", "is never due"),
    ("", "expression must be text, not ''"),
    (5, "expression must be text, not 5"),
]


@pytest.mark.parametrize(("expression", "message"), BAD_EXPRESSIONS)
def test_an_expression_that_cannot_be_used_is_refused_with_its_field(expression: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        schedule(expression)


def test_an_interval_within_an_hour_that_is_always_skipped_is_never_due() -> None:
    with pytest.raises(ConfigurationError, match="is never due"):
        schedule("*/15 2 * 3 7L", BERLIN)


BAD_ZONES = [
    ("Europe/Berln", r"^timezone 'Europe/Berln' is unknown; did you mean 'Europe/Berlin'\?$"),
    ("Mars/Utopia_Planitia", r"^timezone 'Mars/Utopia_Planitia' is unknown; "),
    ("%", r"^timezone '%' is unknown; use a name such as 'Europe/Berlin'$"),
    ("Europe", "^timezone 'Europe' is unknown"),
    ("../UTC", r"^timezone '\.\./UTC' is unknown"),
    ("", "^timezone must be text, not ''"),
    (ZoneInfo(BERLIN), "^timezone must be text, not zoneinfo"),
]


@pytest.mark.parametrize(("zone", "message"), BAD_ZONES)
def test_a_time_zone_that_is_not_known_is_refused_with_the_nearest(zone: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        schedule("@daily", zone)


def test_another_policy_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="missed must be 'skip' or 'last' or 'all', not 'al'; did you mean"):
        schedule("@daily", missed="al")  # type: ignore[arg-type]


def test_an_option_that_a_schedule_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="Schedule has no option 'timezon'; did you mean 'timezone'"):
        Schedule(name="nightly", expression="@daily", timezon=BERLIN)  # type: ignore[call-arg]


def test_a_moment_without_a_time_zone_is_refused() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001

    with pytest.raises(ConfigurationError, match="timestamp must have a time zone"):
        schedule("@daily").next_after(naive)
    with pytest.raises(ConfigurationError, match="last_at must have a time zone"):
        schedule("@daily").due(naive, at("2026-01-01"))
    with pytest.raises(ConfigurationError, match="now must have a time zone"):
        schedule("@daily").due(at("2026-01-01"), naive)


def test_after_the_last_moment_that_stores_keep_there_is_no_slot() -> None:
    with pytest.raises(
        ConfigurationError, match="'@yearly' is not due between 2199-06-01 and 2200-01-01; pass an earlier time"
    ):
        schedule("@yearly").next_after(at("2199-06-01"))


def test_a_repeated_hour_counts_twice_even_if_no_slot_follows_it() -> None:
    found = schedule("*/30 2 * 10 7L", BERLIN).due(at("2199-10-01"), at("2199-12-31"))

    assert [f"{slot:%m-%d %H:%M}" for slot in found] == ["10-27 00:00", "10-27 00:30", "10-27 01:00", "10-27 01:30"]


WITHOUT_ZONES = """
import sys, zoneinfo
sys.modules["tzdata"] = None
zoneinfo.reset_tzpath(to=[])
from datetime import UTC, datetime
from tenure.client.cron import Schedule
print(Schedule(name="n", expression="@daily").next_after(datetime(2026, 1, 1, tzinfo=UTC)))
Schedule(name="n", expression="@daily", timezone="Europe/Berlin")
"""


def test_without_time_zone_data_there_is_utc_and_a_remedy_for_the_others() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_ZONES], capture_output=True, text=True, check=False)

    assert ended.stdout.strip() == "2026-01-02 00:00:00+00:00"
    assert "cannot load timezone 'Europe/Berlin'" in ended.stderr
    assert ended.stderr.strip().endswith("install the package tzdata")


def test_cronsim_and_zones_are_imported_when_a_schedule_is_made() -> None:
    code = "import sys, tenure.client.cron; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert {"cronsim", "zoneinfo"}.isdisjoint(loaded)
