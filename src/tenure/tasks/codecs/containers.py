"""Lists, tuples, sets and mappings of values.

Lists and string-keyed mappings of plain values are plain themselves. The others are rebuilt when they are read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tenure.core import checks
from tenure.errors import ConfigurationError
from tenure.tasks.codecs.annotations import spelled
from tenure.tasks.codecs.codec import Codec, Unfit, plain, unfit


def several(kinds: tuple[Any, ...], build: Callable[[Iterable[Any]], Any], item: Codec) -> Codec:
    """Return the codec of instances of these kinds, written as an array and read by `build`."""
    if build is list and item.is_plain:
        return plain(list)
    encode_item, decode_item = item.encode, item.decode

    def encode(value: Any) -> list[Any]:
        if not isinstance(value, kinds):
            raise unfit(value, kinds[0])
        return [encode_item(each) for each in value]

    def decode(value: Any) -> Any:
        if type(value) is not list:
            raise unfit(value, kinds[0])
        return build([decode_item(each) for each in value])

    return Codec(encode=encode, decode=decode, written=frozenset({list}))


def different(kinds: tuple[Any, ...], build: Callable[[Iterable[Any]], Any], item: Codec) -> Codec:
    """Return the codec of sets: as `several`, of items that can be in a set, and still differ, when they are read."""
    codec = several(kinds, build, item)

    def encode(value: Any) -> list[Any]:
        written: list[Any] = codec.encode(value)
        if item.is_plain and not all(isinstance(each, str | int | float | None) for each in written):
            raise Unfit(f"{checks.shown(value)} has items that are not written as strings or numbers")
        try:
            is_kept = codec.decode(written) == value
        except TypeError:
            is_kept = False
        if not is_kept:
            raise Unfit(f"{checks.shown(value)} does not come back as the same set")
        return written

    return Codec(encode=encode, decode=codec.decode, written=codec.written)


def fixed(items: Sequence[Codec]) -> Codec:
    """Return the codec of tuples with these items."""
    encoders = [each.encode for each in items]
    decoders = [each.decode for each in items]
    length = len(items)

    def encode(value: Any) -> list[Any]:
        if not isinstance(value, tuple) or len(value) != length:
            raise Unfit(f"{checks.shown(value)} is not a tuple of {length}")
        return [each(part) for each, part in zip(encoders, value, strict=True)]

    def decode(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != length:
            raise Unfit(f"{checks.shown(value)} is not a tuple of {length}")
        return tuple([each(part) for each, part in zip(decoders, value, strict=True)])

    return Codec(encode=encode, decode=decode, written=frozenset({list}))


def mapping(kind: Any, key: Codec, content: Codec) -> Codec:
    """Return the codec of mappings, whose keys are written as strings and which are read as a dict."""
    if key.is_plain and content.is_plain:
        return plain(dict)
    encode_key, decode_key = key.encode, key.decode
    encode_content, decode_content = content.encode, content.decode

    def encode(value: Any) -> dict[Any, Any]:
        if not isinstance(value, kind):
            raise unfit(value, kind)
        return _whole(value, {encode_key(name): encode_content(each) for name, each in value.items()})

    def decode(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise unfit(value, kind)
        return _whole(value, {decode_key(name): decode_content(each) for name, each in value.items()})

    return Codec(encode=encode, decode=decode, written=frozenset({dict}))


def key(annotation: Any, codec: Codec) -> Codec:
    """Return the codec of keys: what is written as a string is kept, whole numbers become strings."""
    if codec.written == {str} or (codec.is_plain and str in codec.written):
        return codec
    if codec.written != {int}:
        raise ConfigurationError(
            f"{spelled(annotation)} cannot be the key of a JSON object; use str, int, UUID, a date or an Enum"
        )

    def encode(value: Any) -> str:
        number = codec.encode(value)
        if type(number) is not int:
            raise unfit(value, annotation)
        return str(number)

    def decode(value: Any) -> Any:
        if str(number := int(value)) != value:
            raise unfit(value, annotation)
        return codec.decode(number)

    return Codec(encode=encode, decode=decode, written=frozenset({str}))


def _whole(value: Mapping[Any, Any], translated: dict[Any, Any]) -> dict[Any, Any]:
    if len(translated) != len(value):
        raise Unfit(f"{checks.shown(value)} has two keys that mean the same")
    return translated
