"""The two directions between a Python value and JSON.

What `encode` returns, `decode` reads as an equal value. What would not come back equal `encode` refuses, so that no job
is stored that its worker cannot read, or reads as something else.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import NoneType
from typing import Any

from tenure.core import checks
from tenure.tasks.codecs.annotations import spelled

EVERYTHING = frozenset({NoneType, bool, int, float, str, list, dict})
"""The types that JSON is read as."""


class Unfit(ValueError):  # noqa: N818 - it names a fact
    """A value that is not written, or JSON that is not read, under this annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """How values of one annotation are written as JSON and read back; `written` is what JSON they can be."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    written: frozenset[type]
    is_plain: bool = False


def plain(*written: type) -> Codec:
    """Return the codec of values that are JSON already; nothing is checked or changed."""
    return Codec(encode=_as_it_is, decode=_as_it_is, written=frozenset(written), is_plain=True)


def later(codec: Callable[[], Codec], written: Collection[type]) -> Codec:
    """Return a codec that is looked up when it is used, for a class that holds its own kind."""

    def encode(value: Any) -> Any:
        return codec().encode(value)

    def decode(value: Any) -> Any:
        return codec().decode(value)

    return Codec(encode=encode, decode=decode, written=frozenset(written))


def unfit(value: object, annotation: object) -> Unfit:
    return Unfit(f"{checks.shown(value)} is not {spelled(annotation)}")


def _as_it_is(value: Any) -> Any:
    return value
