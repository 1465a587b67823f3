"""Values of one of several kinds, told apart by what they are in JSON.

Which member is meant can be seen from the JSON alone: no two members are written alike, unless both are plain.
"""

from collections.abc import Sequence
from itertools import combinations
from types import NoneType
from typing import Any

from tenure.errors import ConfigurationError
from tenure.tasks.codecs.annotations import spelled
from tenure.tasks.codecs.codec import Codec, Unfit, plain, unfit

WORDS = {
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
    _refuse_what_is_written_alike(members)
    codecs = [codec for _, codec in members]
    written = frozenset[type]().union(*(each.written for each in codecs))
    plain_types = tuple(kind for each in codecs if each.is_plain for kind in each.written)
    translated = [each for each in codecs if not each.is_plain]
    if not translated:
        return plain(*written)
    if len(translated) == 1 and plain_types == (NoneType,):
        return _optional(translated[0], written)
    decoders = {kind: each.decode for each in codecs for kind in each.written}

    def encode(value: Any) -> Any:
        if isinstance(value, plain_types) and (bool in plain_types or not isinstance(value, bool)):
            return value
        for each in translated:
            try:
                return each.encode(value)
            except Unfit:
                continue
        raise unfit(value, annotation)

    def decode(value: Any) -> Any:
        if type(value) not in decoders:
            raise unfit(value, annotation)
        return decoders[type(value)](value)

    return Codec(encode=encode, decode=decode, written=written)


def _refuse_what_is_written_alike(members: Sequence[tuple[Any, Codec]]) -> None:
    for (first, one), (second, other) in combinations(members, 2):
        shared = one.written & other.written
        if shared and not (one.is_plain and other.is_plain):
            raise ConfigurationError(
                f"{spelled(first)} and {spelled(second)} cannot be told apart, since both can be "
                f"{min(WORDS[each] for each in shared)} in JSON; use one of them, or a class with a field for each"
            )


def _optional(codec: Codec, written: frozenset[type]) -> Codec:
    encode_value, decode_value = codec.encode, codec.decode

    def encode(value: Any) -> Any:
        return None if value is None else encode_value(value)

    def decode(value: Any) -> Any:
        return None if value is None else decode_value(value)

    return Codec(encode=encode, decode=decode, written=written)
