"""The slots of periodic tasks: the moments at which a cron expression is due, in a time zone whose clocks change.

A schedule has the same slots wherever one begins to look for them, so that workers which start at different moments
agree. Hence cronsim is only asked which wall times match, without a zone; what moments those are is decided here. Given
a zone, its answers depend on where it starts: from within a repeated hour it goes back in time, and after a change of
half an hour it leaves out slots.
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
"""What becomes of slots that nobody was there for: none is made up for, only the latest, or each."""

PUNCTUAL = 60.0
"""How many seconds after its slot a task may still be enqueued without having missed it."""

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
SHORT, LONG = len(FIELDS) - 1, len(FIELDS)

LAST_WALL = checks.LATEST.replace(tzinfo=None)
RECENT = datetime(2020, 1, 1, tzinfo=UTC)
"""From here on a schedule must have a slot. Not from the present: what is refused must not depend on the day."""

LONGEST_NAME = checks.LONGEST_NAME - len("cron::2026-11-15T02:00:00Z")


@checks.with_known_options
@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a periodic task is due.

    The expression has five fields (minute, hour, day of month, month, day of week), a sixth before them for seconds,
    or is an alias such as `@daily`.

    When the clocks change, the rule is that of Debian's cron. If neither minute nor hour begins with `*`, the task is
    due at *fixed times*: one that is repeated counts the first time, one that is skipped counts at the first moment
    after the change. Any other expression is due at *intervals*: at every moment at which the clock shows a time that
    matches.
    """

    name: str
    expression: str
    timezone: str = "UTC"
    missed: Missed = "last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", checks.name("name", self.name))
        if len(self.name) > LONGEST_NAME:
            raise ConfigurationError(
                f"name must have 1 to {LONGEST_NAME} characters, to be part of ids, not {len(self.name)}: "
                f"{checks.shown(self.name)}"
            )
        checks.choice("missed", self.missed, get_args(Missed))
        object.__setattr__(self, "expression", " ".join(checks.text("expression", self.expression).split()))
        refuse_bad_fields(self.expression)
        zone_of(checks.text("timezone", self.timezone))
        if next(self._slots_after(RECENT), None) is None:
            raise never(self.expression)

    def next_after(self, moment: datetime) -> datetime:
        """Return the first slot after a moment, in UTC."""
        moment = checks.moment("moment", moment)
        for slot in self._slots_after(moment):
            return slot
        raise ConfigurationError(
            f"expression {self.expression!r} is not due between {moment:%Y-%m-%d} and {LAST_WALL:%Y-%m-%d}; "
            "ask for a slot after an earlier moment"
        )

    def due(self, last_at: datetime, now: datetime) -> list[datetime]:
        """Return the slots after `last_at` and up to `now` that are to be given out, in UTC, ascending.

        If there are more than `LARGEST_BATCH`, these are the oldest; the next call goes on after the last of them. The
        cost does not depend on how long ago `last_at` is.
        """
        last_at, now = checks.moment("last_at", last_at), checks.moment("now", now)
        match self.missed:
            case "skip":
                return self._between(max(last_at, just_before(now - timedelta(seconds=PUNCTUAL))), now)
            case "last":
                latest = self._latest_until(now)
                return [latest] if latest is not None and latest > last_at else []
            case "all":
                return self._between(last_at, now)
            case _:
                assert_never(self.missed)

    def id_of(self, slot: datetime) -> str:
        """Return the id of the job of a slot: the same for whoever enqueues it."""
        return f"cron:{self.name}:{checks.moment('slot', slot):%Y-%m-%dT%H:%M:%SZ}"

    @property
    def _is_fixed(self) -> bool:
        minute, hour = fields_of(self.expression)[-SHORT:][:2]
        return not minute.startswith("*") and not hour.startswith("*")

    def _between(self, after: datetime, until: datetime) -> list[datetime]:
        return list(islice(takewhile(lambda slot: slot <= until, self._slots_after(after)), LARGEST_BATCH))

    def _latest_until(self, now: datetime) -> datetime | None:
        # Back to a slot that is near, and forward from it: a fixed time of the first pass lies before a moment of the
        # second, and yet its wall time may lie ahead.
        for wall in walls_before(self.expression, wall_of(now, zone_of(self.timezone))):
            passed = [moment for moment in self._moments_of(wall) if moment <= now]
            if passed:
                slots = self._slots_after(just_before(passed[-1]))
                return deque(takewhile(lambda slot: slot <= now, slots), maxlen=1).pop()
        return None

    def _slots_after(self, moment: datetime) -> Iterator[datetime]:
        zone = zone_of(self.timezone)
        wall = wall_of(moment, zone)
        first, second = passes(wall, zone)
        # Within a repeated hour, wall times that lie behind come once more.
        walls = walls_after(self.expression, wall - (second - first))
        for slot in self._in_order(takewhile(lambda wall: wall < LAST_WALL, walls)):
            if slot > moment:
                moment = slot
                yield slot

    def _in_order(self, walls: Iterable[datetime]) -> Iterator[datetime]:
        """Yield the moments of ascending wall times, ascending: those of a second pass after all of the first."""
        repeated: deque[datetime] = deque()
        for wall in walls:
            moments = self._moments_of(wall)
            while repeated and moments and repeated[0] < moments[0]:
                yield repeated.popleft()
            yield from moments[:1]
            repeated.extend(moments[1:])
        yield from repeated

    def _moments_of(self, wall: datetime) -> list[datetime]:
        """Return the moments at which the task is due because the clock shows, or would show, this wall time."""
        zone = zone_of(self.timezone)
        first, second = passes(wall, zone)
        if first == second:
            return [first]
        is_repeated = first < second
        if self._is_fixed:
            return [first if is_repeated else end_of_gap(wall, zone)]
        return [first, second] if is_repeated else []


def fields_of(expression: str) -> list[str]:
    return ALIASES.get(expression.lower(), expression).split()


def walls_after(expression: str, wall: datetime) -> Iterator[datetime]:
    """Return the wall times after this one that match, ascending; they end if none does for 50 years."""
    from cronsim import CronSim

    return CronSim(" ".join(fields_of(expression)), wall)


def walls_before(expression: str, wall: datetime) -> Iterator[datetime]:
    """Return the wall times up to and with this one that match, descending."""
    from cronsim import CronSim

    return CronSim(" ".join(fields_of(expression)), wall.replace(microsecond=0) + timedelta(seconds=1), reverse=True)


def wall_of(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def passes(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the moments at which the clock shows a wall time for the first and for the second time.

    They are equal if it shows it once. If the clock skips it, the second is before the gap, and the first after it.
    """
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def end_of_gap(wall: datetime, zone: tzinfo) -> datetime:
    """Return the first moment after the gap in which this wall time lies."""
    after, before = passes(wall, zone)
    seconds = range(int(before.timestamp()), int(after.timestamp()) + 1)
    found = bisect_left(seconds, wall, key=lambda second: wall_of(datetime.fromtimestamp(second, UTC), zone))
    return datetime.fromtimestamp(seconds[found], UTC)


def just_before(moment: datetime) -> datetime:
    return moment - timedelta.resolution


def refuse_bad_fields(expression: str) -> None:
    """Raise for an expression that is not one, with the field that is wrong."""
    from cronsim import CronSimError

    fields = fields_of(expression)
    if expression.startswith("@") and expression.lower() not in ALIASES:
        raise ConfigurationError(f"expression {checks.shown(expression)} is no alias; there are {', '.join(ALIASES)}")
    if len(fields) not in {SHORT, LONG}:
        raise ConfigurationError(
            f"expression {checks.shown(expression)} must have {SHORT} fields ({', '.join(list(FIELDS)[-SHORT:])}), "
            f"or {LONG} with the second first, not {len(fields)}"
        )
    for place, (word, allowed) in enumerate(list(FIELDS.items())[-len(fields) :]):
        alone = ["*"] * len(fields)
        alone[place] = fields[place]
        try:
            walls_after(" ".join(alone), LAST_WALL)
        except (CronSimError, ValueError):  # the latter for a number with thousands of digits
            raise ConfigurationError(
                f"expression {checks.shown(expression)} has a bad {word}, {checks.shown(fields[place])}; "
                f"use {allowed}, or *, lists (1,2), ranges (1-5) and steps (*/5)"
            ) from None
    try:
        walls_after(expression, LAST_WALL)
    except CronSimError:
        raise never(expression) from None


def never(expression: str) -> ConfigurationError:
    return ConfigurationError(
        f"expression {checks.shown(expression)} is never due; choose a day and a time that some year has"
    )


def zone_of(key: str) -> tzinfo:
    """Return a time zone by its name; UTC needs no time zone data."""
    if key == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(key)
    except (LookupError, OSError, ValueError):
        known = sorted(available_timezones())
    if not known:
        raise ConfigurationError(
            f"timezone {checks.shown(key)} cannot be looked up, as there is no time zone data here; "
            "install the package tzdata"
        )
    same = (f"; did you mean {each!r}?" for each in known if each.lower() == key.lower())
    remedy = next(same, "") or checks.nearest(key, known) or "; use a name such as 'Europe/Berlin'"
    raise ConfigurationError(f"timezone {checks.shown(key)} is not known{remedy}")
