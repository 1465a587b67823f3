"""The two directions between a Python value and JSON.

What `encode` returns, `decode` reads as an equal value. What would not come back equal `encode` refuses, so that no job
is stored that its worker cannot read, or reads as something else.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import NoneType
from typing import Any

from tenure.core import checks
from tenure.tasks.codecs.annotations import format_annotation

JSON_TYPES = frozenset({NoneType, bool, int, float, str, list, dict})
"""The types that JSON is read as."""


class ValueMismatch(ValueError):  # noqa: N818 - named after the fact
    """A value that is not written, or JSON that is not read, under this annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """How values of one annotation are written as JSON and read back; `written` is what JSON they can be."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    json_types: frozenset[type]
    is_plain: bool = False


def plain(*json_types: type) -> Codec:
    """Return the codec of values that are JSON already; nothing is checked or changed."""
    return Codec(encode=_identity, decode=_identity, json_types=frozenset(json_types), is_plain=True)


def deferred(codec: Callable[[], Codec], json_types: Collection[type]) -> Codec:
    """Return a codec that is looked up when it is used, for a class that holds its own kind."""

    def encode(value: Any) -> Any:
        return codec().encode(value)

    def decode(value: Any) -> Any:
        return codec().decode(value)

    return Codec(encode=encode, decode=decode, json_types=frozenset(json_types))


def value_mismatch(value: object, annotation: object) -> ValueMismatch:
    return ValueMismatch(f"{checks.short_repr(value)} is not {format_annotation(annotation)}")


def _identity(value: Any) -> Any:
    return value
