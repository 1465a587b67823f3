"""Codecs of unions, whose members are distinguished by the type of their JSON.

No two members may have the same JSON type, unless both are plain. So the JSON alone identifies the member.
"""

from collections.abc import Sequence
from itertools import combinations
from types import NoneType
from typing import Any

from tenure.errors import ConfigurationError
from tenure.tasks.codecs.annotations import format_annotation
from tenure.tasks.codecs.codec import Codec, ValueMismatch, plain, value_mismatch

JSON_TYPE_NAMES = {
    NoneType: "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def union(annotation: Any, members: Sequence[tuple[Any, Codec]]) -> Codec:
    """Return the codec of a union; `members` are its annotations with their codecs."""
    _reject_ambiguous_members(members)
    codecs = [codec for _, codec in members]
    written = frozenset[type]().union(*(each.json_types for each in codecs))
    plain_types = tuple(kind for each in codecs if each.is_plain for kind in each.json_types)
    translated = [each for each in codecs if not each.is_plain]
    if not translated:
        return plain(*written)
    if len(translated) == 1 and plain_types == (NoneType,):
        return _optional(translated[0], written)
    decoders = {kind: each.decode for each in codecs for kind in each.json_types}

    def encode(value: Any) -> Any:
        if isinstance(value, plain_types) and (bool in plain_types or not isinstance(value, bool)):
            return value
        for each in translated:
            try:
                return each.encode(value)
            except ValueMismatch:
                continue
        raise value_mismatch(value, annotation)

    def decode(value: Any) -> Any:
        if type(value) not in decoders:
            raise value_mismatch(value, annotation)
        return decoders[type(value)](value)

    return Codec(encode=encode, decode=decode, json_types=written)


def _reject_ambiguous_members(members: Sequence[tuple[Any, Codec]]) -> None:
    for (first, one), (second, other) in combinations(members, 2):
        shared = one.json_types & other.json_types
        if shared and not (one.is_plain and other.is_plain):
            raise ConfigurationError(
                f"{format_annotation(first)} and {format_annotation(second)} are ambiguous in a union: both can be "
                f"{min(JSON_TYPE_NAMES[each] for each in shared)} in JSON; use one of them, or a class with a field "
                "for each"
            )


def _optional(codec: Codec, json_types: frozenset[type]) -> Codec:
    encode_value, decode_value = codec.encode, codec.decode

    def encode(value: Any) -> Any:
        return None if value is None else encode_value(value)

    def decode(value: Any) -> Any:
        return None if value is None else decode_value(value)

    return Codec(encode=encode, decode=decode, json_types=json_types)
