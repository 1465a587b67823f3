"""A pair of functions that convert a Python value to JSON and back.

`decode` returns a value equal to the one that `encode` received. `encode` rejects a value that would not come back
equal, so every stored job can be read by its worker.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import NoneType
from typing import Any

from tenure.core import checks
from tenure.tasks.codecs.annotations import format_annotation

JSON_TYPES = frozenset({NoneType, bool, int, float, str, list, dict})
"""The Python types of parsed JSON."""


class ValueMismatch(ValueError):  # noqa: N818 - named after the fact
    """A value or its JSON does not fit the annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """Converts the values of an annotation to JSON and back. `json_types` are the possible types of the JSON."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    json_types: frozenset[type]
    is_plain: bool = False


def plain(*json_types: type) -> Codec:
    """Return the codec of values that are JSON already. It checks and changes nothing."""
    return Codec(encode=_identity, decode=_identity, json_types=frozenset(json_types), is_plain=True)


def deferred(codec: Callable[[], Codec], json_types: Collection[type]) -> Codec:
    """Return a codec that is looked up on use, for a class that contains itself."""

    def encode(value: Any) -> Any:
        return codec().encode(value)

    def decode(value: Any) -> Any:
        return codec().decode(value)

    return Codec(encode=encode, decode=decode, json_types=frozenset(json_types))


def value_mismatch(value: object, annotation: object) -> ValueMismatch:
    return ValueMismatch(f"{checks.short_repr(value)} is not {format_annotation(annotation)}")


def _identity(value: Any) -> Any:
    return value
