"""Check the caller's values before they reach a store.

Each function returns the value in its normal form, or raises `ConfigurationError` with the name of the option, the
value, and the allowed values.
"""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tenure.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")

Seconds = float | timedelta
"""A duration: a number of seconds, or a timedelta."""

LONGEST_NAME = 200
LONGEST_REPR = 80
LONGEST_META = 16 * 1024
LONGEST_ERROR = 16 * 1024
GREATEST_NUMBER = 2.0**53
"""Every JSON parser keeps whole numbers up to this one exact."""
LONGEST_DELAY = 100 * 365 * 86_400.0
"""A hundred years. Every store can add this delay to the current time without an overflow."""

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Every store keeps timestamps within this range to the microsecond."""

TRUNCATION_MARK = "[… cut]\n"


def optional(check: Callable[[str, object], R], option: str, value: object) -> R | None:
    """Return the checked value, or None for None."""
    return None if value is None else check(option, value)


def name(option: str, value: object) -> str:
    """Check the name of a queue, type, key, id or worker: short, printable, unchanged by every store."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{option} must be a string, not {short_repr(value)}")
    if not value or len(value) > LONGEST_NAME:
        raise ConfigurationError(
            f"{option} must have 1 to {LONGEST_NAME} characters, not {len(value)}: {short_repr(value)}"
        )
    if not value.isprintable() or value != value.strip():
        raise ConfigurationError(f"{option} must be printable text without space around it, not {value!r}")
    # A plain str: a driver may treat a subclass, such as an enum member, differently.
    return str.__str__(value)


def names(option: str, value: object) -> tuple[str, ...]:
    """Check a name or a list of at least one name, and return the names without duplicates."""
    found = names_or_empty(option, value)
    if not found:
        raise ConfigurationError(f"{option} is empty; name at least one")
    return found


def names_or_empty(option: str, value: object) -> tuple[str, ...]:
    """Check names like `names`, but accept an empty collection."""
    if isinstance(value, str):
        return (name(option, value),)
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigurationError(f"{option} must be a name or a list of names, not {short_repr(value)}")
    return tuple(dict.fromkeys(name(option, each) for each in value))


def integer(option: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{option} must be a whole number, not {value!r}")
    if not least <= value <= most:
        raise ConfigurationError(f"{option} must be {least:,} to {most:,}, not {short_repr(value)}")
    return int(value)


def count(option: str, value: object) -> int:
    return integer(option, value, 0, 2**31 - 1)


def text(option: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{option} must be text, not {value!r}")
    return value


def storable_text(option: str, value: object) -> str:
    """Check text that every store can keep and search."""
    if replace_unstorable(text(option, value)) != value:
        raise ConfigurationError(f"{option} must be text without NUL or lone surrogates, not {value!r}")
    return text(option, value)


def boolean(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{option} must be True or False, not {value!r}")
    return value


def seconds(option: str, value: object, least: float = 0.0, most: float = LONGEST_DELAY) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        raise ConfigurationError(f"{option} must be a number of seconds or a timedelta, not {value!r}")
    if not least <= value <= most:
        raise ConfigurationError(f"{option} must be {least:,.12g} to {most:,.12g} seconds, not {short_repr(value)}")
    return float(value)


def number(option: str, value: object, least: float = -GREATEST_NUMBER, most: float = GREATEST_NUMBER) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigurationError(
            f"{option} must be a number from {least:,.12g} to {most:,.12g}, not {short_repr(value)}"
        )
    return value


def timestamp(option: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        raise ConfigurationError(f"{option} must be a datetime, not {value!r}")
    if value.utcoffset() is None:
        raise ConfigurationError(f"{option} must have a time zone, like datetime.now(UTC), but {value!r} has none")
    if not EARLIEST <= value <= LATEST:
        raise ConfigurationError(f"{option} must be from {EARLIEST.year} to {LATEST.year}, not {value!r}")
    return value.astimezone(UTC)


def choice(option: str, value: object, allowed: Sequence[str]) -> str:
    if value in allowed:
        return str(value)
    words = [str(each) for each in allowed]
    raise ConfigurationError(
        f"{option} must be {' or '.join(map(repr, words))}, not {value!r}{did_you_mean(value, words)}"
    )


def meta(option: str, value: object) -> dict[str, str]:
    """Check the labels of a job: a small mapping of strings to strings."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{option} must map strings to strings, not {value!r}")
    checked: dict[str, str] = {}
    size = 0
    for label, content in value.items():
        checked[name(f"{option} label", label)] = content
        if not isinstance(content, str) or replace_unstorable(content) != content:
            raise ConfigurationError(
                f"{option}[{label!r}] must be text without NUL or lone surrogates, not {content!r}"
            )
        size += len(label.encode()) + len(content.encode())
    if size > LONGEST_META:
        raise ConfigurationError(f"{option} has {size:,} bytes; the limit is {LONGEST_META:,}")
    return checked


def replace_unstorable(text: str) -> str:
    """Replace what not every store can keep: NUL by U+FFFD, a lone surrogate by a question mark."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def error_text(option: str, value: object) -> str:
    """Return an error's text as stored. A text that is too long loses its beginning: the cause is at the end."""
    encoded = replace_unstorable(text(option, value)).encode()
    if len(encoded) <= LONGEST_ERROR:
        return encoded.decode()
    room = LONGEST_ERROR - len(TRUNCATION_MARK.encode())
    return TRUNCATION_MARK + encoded[-room:].decode(errors="ignore")


def short_repr(value: object) -> str:
    """Return a short `repr` of any value, for an error message."""
    try:
        text = repr(value)
    except ValueError:
        return f"a very large {type(value).__name__}"
    except Exception:  # noqa: BLE001 - the user's `__repr__` may raise anything
        return f"a {type(value).__name__} whose repr() fails"
    return text if len(text) <= LONGEST_REPR else f"{text[:LONGEST_REPR]}…"


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` if a known name resembles the given one, else an empty string."""
    close = difflib.get_close_matches(str(given), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def reject_unknown_options(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function reject unknown keyword arguments, and suggest the most similar parameter."""
    known = frozenset(inspect.signature(function).parameters) - {"self"}
    where = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if not known.issuperset(options):
            reject_unknown(where, options, known)
        return function(*args, **options)

    return call


def reject_unknown_fields(kind: type[R]) -> type[R]:
    """Make a class reject unknown fields, and suggest the most similar field."""
    kind.__init__ = reject_unknown_options(kind.__init__)  # type: ignore[method-assign]
    return kind


def reject_unknown(where: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise `ConfigurationError` for the first unknown name."""
    known = sorted(known)
    for each in given:
        if each not in known:
            remedy = did_you_mean(each, known) or (f"; the options are {', '.join(known)}" if known else "")
            raise ConfigurationError(f"{where} has no option {each!r}{remedy}")
