"""Types of option values: durations, timestamps, rates, sizes, JSON."""

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
    """Parse `90`, `1.5s`, `10m`, `1h30m` or `7d` to seconds. A number without a unit means seconds."""
    text = value.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise click.BadParameter(f"invalid duration {value!r}: use 90, 30s, 10m, 1h30m or 7d")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def timestamp(value: str) -> datetime:
    """Parse a timestamp in ISO 8601 with its time zone, such as `2026-12-24T18:00+01:00`."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"invalid time {value!r}: use ISO 8601 such as {_example_timestamp()}") from None
    if found.utcoffset() is None:
        raise click.BadParameter(f"time {value!r} has no time zone: add Z for UTC, or an offset such as +01:00")
    return found


def rate(value: str) -> float:
    """Parse `20/s`, `600/m` or `1000/h` to a number per second."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/([smh]))?", value.strip())
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"invalid rate {value!r}: use 20/s, 600/m or 1000/h")
    each = float(found[1]) / UNITS[found[2] or "s"]
    if not SLOWEST <= each <= FASTEST:
        raise click.BadParameter(f"rate {value!r} is out of range: use 1/h to 1000000/s")
    return each


def size(value: str) -> int:
    """Parse `512M` or `2G` to bytes. A number without a unit means bytes."""
    found = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", value.strip(), re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"invalid size {value!r}: use a number with K, M or G, such as 512M or 2G")
    return int(found[1]) * SIZES[found[2].upper()]


def target(value: str) -> str:
    """Check that a value has the form `module:object`."""
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*", value):
        raise click.BadParameter(f"invalid object {value!r}: use MODULE:OBJECT, such as app:jobs")
    return value


def read_text(value: str, what: str) -> str:
    """Return the value itself; for `-` the standard input, for `@FILE` the content of the file."""
    try:
        if value == "-":
            if sys.stdin is None:
                raise click.UsageError(f"cannot read {what}: the standard input is closed")
            # Not as text, which would use the encoding of the locale.
            return sys.stdin.buffer.read().decode("utf-8-sig")
        if value.startswith("@"):
            return Path(value[1:]).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        source = "the standard input" if value == "-" else repr(value[1:])
        raise click.UsageError(f"{what} in {source} is not UTF-8: {exc.reason} at byte {exc.start}") from None
    return value


def parse_json(text: str, what: str) -> Any:
    """Parse JSON. An error names line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        shown = text if len(text) <= 60 else f"{text[:60]}…"  # noqa: PLR2004 - about a line
        position = f"line {exc.lineno}, column {exc.colno}" if exc.lineno > 1 else f"column {exc.colno}"
        raise click.UsageError(f"{what} is not valid JSON ({exc.msg}, {position}): {shown}") from None
    except RecursionError:
        raise click.UsageError(f"{what} is nested too deeply") from None
    except ValueError:
        raise click.UsageError(f"{what} contains a number with too many digits") from None


def _example_timestamp() -> str:
    return datetime.now(UTC).replace(second=0, microsecond=0).isoformat().replace("+00:00", "Z")
