"""What can be written after an option: durations, moments, rates, sizes, JSON."""

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
SLOWEST, FASTEST = 1 / 3600, 1e6
SIZES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def duration(value: str) -> float:
    """Return the seconds of `90`, `1.5s`, `10m`, `1h30m` or `7d`: seconds, unless a unit is named."""
    text = value.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise click.BadParameter(f"{value!r} is no time; write 90, 30s, 10m, 1h30m or 7d")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def moment(value: str) -> datetime:
    """Return the moment of `2026-12-24T18:00+01:00`: ISO 8601, with its zone."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no moment; write it like {_example()}") from None
    if found.utcoffset() is None:
        raise click.BadParameter(f"{value!r} has no time zone; add Z for UTC, or one like +01:00")
    return found


def rate(value: str) -> float:
    """Return how many a second `20/s`, `600/m` or `1000/h` are."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/([smh]))?", value.strip())
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"{value!r} is no rate; write 20/s, 600/m or 1000/h")
    each = float(found[1]) / UNITS[found[2] or "s"]
    if not SLOWEST <= each <= FASTEST:
        raise click.BadParameter(f"{value!r} is out of range; a rate is from 1/h to 1000000/s")
    return each


def size(value: str) -> int:
    """Return the bytes of `512M` or `2G`: bytes, unless a unit is named."""
    found = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", value.strip(), re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"{value!r} is no size; write 512M or 2G")
    return int(found[1]) * SIZES[found[2].upper()]


def target(value: str) -> str:
    """Return `app:jobs`: a module, and the object in it."""
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", value):
        raise click.BadParameter(f"{value!r} names no object of a module; write it like app:jobs")
    return value


def text_of(value: str, what: str) -> str:
    """Return the text itself; for `-` the standard input, for `@FILE` what is in the file."""
    try:
        if value == "-":
            if sys.stdin is None:
                raise click.UsageError(f"{what} is to come from the standard input, which is closed")
            # Not as text: that would be in the encoding of the locale.
            return sys.stdin.buffer.read().decode("utf-8-sig")
        if value.startswith("@"):
            return Path(value[1:]).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        source = "the standard input" if value == "-" else repr(value[1:])
        raise click.UsageError(f"{what} in {source} is not UTF-8: {exc.reason} at byte {exc.start}") from None
    return value


def json_of(text: str, what: str) -> Any:
    """Return what the JSON says, or refuse it with the place of the mistake."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        shown = text if len(text) <= 60 else f"{text[:60]}…"  # noqa: PLR2004 - about a line
        place = f"line {exc.lineno}, column {exc.colno}" if exc.lineno > 1 else f"column {exc.colno}"
        raise click.UsageError(f"{what} is no JSON ({exc.msg}, {place}): {shown}") from None
    except RecursionError:
        raise click.UsageError(f"{what} is nested too deeply") from None
    except ValueError:
        raise click.UsageError(f"{what} has a number of too many digits") from None


def _example() -> str:
    return datetime.now(UTC).replace(second=0, microsecond=0).isoformat().replace("+00:00", "Z")
