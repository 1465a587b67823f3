"""Compute the slots of periodic tasks: the times at which a cron expression is due, with daylight saving time.

The slots of a schedule do not depend on where the search starts, so workers that start at different times agree.
Therefore cronsim only matches wall times, without a time zone, and this module converts wall times to UTC. With a
time zone, the results of cronsim depend on the start: within a repeated hour it goes back in time, and after a change
of half an hour it skips slots.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from typing import Literal, assert_never, get_args

from tenure.core import checks
from tenure.core.operations import LARGEST_BATCH
from tenure.errors import ConfigurationError

Missed = Literal["skip", "last", "all"]
"""Which missed slots are caught up: none, only the latest, or all."""

MISSED_AFTER = 60.0
"""Seconds after which a slot without a job counts as missed."""

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

FIELDS = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of month": "1 to 31, L for the last day or LW for the last weekday",
    "month": "1 to 12 or JAN to DEC",
    "day of week": "0 to 7 or SUN to SAT, 1#2 for the second Monday or 1L for the last",
}
FIELD_COUNT, FIELD_COUNT_WITH_SECONDS = len(FIELDS) - 1, len(FIELDS)

LAST_WALL_TIME = checks.LATEST.replace(tzinfo=None)
SEARCH_START = datetime(2020, 1, 1, tzinfo=UTC)
"""A schedule must have a slot after this date. A fixed date, so that validity does not depend on the current day."""

LONGEST_NAME = checks.LONGEST_NAME - len("cron::2026-11-15T02:00:00Z")


@checks.reject_unknown_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a periodic task is due.

    The expression has five fields (minute, hour, day of month, month, day of week), a sixth before them for seconds,
    or is an alias such as `@daily`.

    Clock changes follow the rule of Debian's cron. If neither minute nor hour begins with `*`, the task is due at
    *fixed times*: a repeated time counts once, at its first occurrence, and a skipped time counts right after the
    change. Any other expression is due at *intervals*: whenever the clock shows a matching time.
    """

    name: str
    expression: str
    timezone: str = "UTC"
    missed: Missed = "last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", checks.name("name", self.name))
        if len(self.name) > LONGEST_NAME:
            raise ConfigurationError(
                f"name must have 1 to {LONGEST_NAME} characters, since job ids contain it, not {len(self.name)}: "
                f"{checks.short_repr(self.name)}"
            )
        checks.choice("missed", self.missed, get_args(Missed))
        object.__setattr__(self, "expression", " ".join(checks.text("expression", self.expression).split()))
        reject_bad_fields(self.expression)
        load_zone(checks.text("timezone", self.timezone))
        if next(self._slots_after(SEARCH_START), None) is None:
            raise never_due_error(self.expression)

    def next_after(self, timestamp: datetime) -> datetime:
        """Return the first slot after a time, in UTC."""
        timestamp = checks.timestamp("timestamp", timestamp)
        for slot in self._slots_after(timestamp):
            return slot
        raise ConfigurationError(
            f"expression {self.expression!r} is not due between {timestamp:%Y-%m-%d} and {LAST_WALL_TIME:%Y-%m-%d}; "
            "pass an earlier time"
        )

    def due(self, last_at: datetime, now: datetime) -> list[datetime]:
        """Return the slots after `last_at` and up to `now` that need a job, in UTC, ascending.

        If there are more than `LARGEST_BATCH`, return the oldest; the next call continues after the last of them. The
        cost does not depend on the age of `last_at`.
        """
        last_at, now = checks.timestamp("last_at", last_at), checks.timestamp("now", now)
        match self.missed:
            case "skip":
                return self._slots_between(max(last_at, just_before(now - timedelta(seconds=MISSED_AFTER))), now)
            case "last":
                latest = self._latest_slot(now)
                return [latest] if latest is not None and latest > last_at else []
            case "all":
                return self._slots_between(last_at, now)
            case _:
                assert_never(self.missed)

    def job_id(self, slot: datetime) -> str:
        """Return the job id of a slot: the same id in every worker."""
        return f"cron:{self.name}:{checks.timestamp('slot', slot):%Y-%m-%dT%H:%M:%SZ}"

    @property
    def _is_fixed(self) -> bool:
        minute, hour = split_fields(self.expression)[-FIELD_COUNT:][:2]
        return not minute.startswith("*") and not hour.startswith("*")

    def _slots_between(self, after: datetime, until: datetime) -> list[datetime]:
        return list(islice(takewhile(lambda slot: slot <= until, self._slots_after(after)), LARGEST_BATCH))

    def _latest_slot(self, now: datetime) -> datetime | None:
        # Step back to a nearby slot, then search forward: within the second pass of a repeated hour, a fixed time of
        # the first pass is in the past although its wall time is still ahead.
        for wall in wall_times_before(self.expression, to_wall_time(now, load_zone(self.timezone))):
            passed = [slot for slot in self._due_times(wall) if slot <= now]
            if passed:
                slots = self._slots_after(just_before(passed[-1]))
                return deque(takewhile(lambda slot: slot <= now, slots), maxlen=1).pop()
        return None

    def _slots_after(self, timestamp: datetime) -> Iterator[datetime]:
        zone = load_zone(self.timezone)
        wall = to_wall_time(timestamp, zone)
        first, second = occurrences_of(wall, zone)
        # Within a repeated hour, wall times in the past occur a second time.
        walls = wall_times_after(self.expression, wall - (second - first))
        for slot in self._merge_in_order(takewhile(lambda wall: wall < LAST_WALL_TIME, walls)):
            if slot > timestamp:
                timestamp = slot
                yield slot

    def _merge_in_order(self, walls: Iterable[datetime]) -> Iterator[datetime]:
        """Yield the times of ascending wall times in order. Second occurrences come after all first ones."""
        repeated: deque[datetime] = deque()
        for wall in walls:
            due_times = self._due_times(wall)
            while repeated and due_times and repeated[0] < due_times[0]:
                yield repeated.popleft()
            yield from due_times[:1]
            repeated.extend(due_times[1:])
        yield from repeated

    def _due_times(self, wall: datetime) -> list[datetime]:
        """Return the times at which the task is due for a wall time, which the clock may show twice, or skip."""
        zone = load_zone(self.timezone)
        first, second = occurrences_of(wall, zone)
        if first == second:
            return [first]
        is_repeated = first < second
        if self._is_fixed:
            return [first if is_repeated else end_of_gap(wall, zone)]
        return [first, second] if is_repeated else []


def split_fields(expression: str) -> list[str]:
    return ALIASES.get(expression.lower(), expression).split()


def wall_times_after(expression: str, wall: datetime) -> Iterator[datetime]:
    """Return the matching wall times after `wall`, ascending. Ends after 50 years without a match."""
    from cronsim import CronSim

    return CronSim(" ".join(split_fields(expression)), wall)


def wall_times_before(expression: str, wall: datetime) -> Iterator[datetime]:
    """Return the matching wall times up to and including `wall`, descending."""
    from cronsim import CronSim

    return CronSim(" ".join(split_fields(expression)), wall.replace(microsecond=0) + timedelta(seconds=1), reverse=True)


def to_wall_time(timestamp: datetime, zone: tzinfo) -> datetime:
    return timestamp.astimezone(zone).replace(tzinfo=None, fold=0)


def occurrences_of(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the times at which the clock shows a wall time for the first and for the second time.

    Both are equal if the wall time occurs once. If the clock skips the wall time, the first lies after the gap and the
    second before it.
    """
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def end_of_gap(wall: datetime, zone: tzinfo) -> datetime:
    """Return the first time after the gap that contains this wall time."""
    after, before = occurrences_of(wall, zone)
    seconds = range(int(before.timestamp()), int(after.timestamp()) + 1)
    found = bisect_left(seconds, wall, key=lambda second: to_wall_time(datetime.fromtimestamp(second, UTC), zone))
    return datetime.fromtimestamp(seconds[found], UTC)


def just_before(timestamp: datetime) -> datetime:
    return timestamp - timedelta.resolution


def reject_bad_fields(expression: str) -> None:
    """Raise `ConfigurationError` for an invalid expression; the message names the field."""
    from cronsim import CronSimError

    fields = split_fields(expression)
    if expression.startswith("@") and expression.lower() not in ALIASES:
        raise ConfigurationError(
            f"expression {checks.short_repr(expression)} is not an alias; use {', '.join(ALIASES)}"
        )
    if len(fields) not in {FIELD_COUNT, FIELD_COUNT_WITH_SECONDS}:
        raise ConfigurationError(
            f"expression {checks.short_repr(expression)} must have {FIELD_COUNT} fields "
            f"({', '.join(list(FIELDS)[-FIELD_COUNT:])}), "
            f"or {FIELD_COUNT_WITH_SECONDS} with the second first, not {len(fields)}"
        )
    for position, (word, allowed) in enumerate(list(FIELDS.items())[-len(fields) :]):
        alone = ["*"] * len(fields)
        alone[position] = fields[position]
        try:
            wall_times_after(" ".join(alone), LAST_WALL_TIME)
        except (CronSimError, ValueError):  # ValueError: a number with thousands of digits
            raise ConfigurationError(
                f"expression {checks.short_repr(expression)} has an invalid {word}, "
                f"{checks.short_repr(fields[position])}; "
                f"use {allowed}, or *, lists (1,2), ranges (1-5) and steps (*/5)"
            ) from None
    try:
        wall_times_after(expression, LAST_WALL_TIME)
    except CronSimError:
        raise never_due_error(expression) from None


def never_due_error(expression: str) -> ConfigurationError:
    return ConfigurationError(
        f"expression {checks.short_repr(expression)} is never due; use a day and a time that exist"
    )


def load_zone(key: str) -> tzinfo:
    """Load a time zone by name. UTC needs no time zone data."""
    if key == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(key)
    except (LookupError, OSError, ValueError):
        known = sorted(available_timezones())
    if not known:
        raise ConfigurationError(
            f"cannot load timezone {checks.short_repr(key)}: this system has no time zone data; install the package "
            "tzdata"
        )
    same = (f"; did you mean {each!r}?" for each in known if each.lower() == key.lower())
    remedy = next(same, "") or checks.did_you_mean(key, known) or "; use a name such as 'Europe/Berlin'"
    raise ConfigurationError(f"timezone {checks.short_repr(key)} is unknown{remedy}")
