"""Codecs of lists, tuples, sets and mappings.

Lists and string-keyed mappings of plain values are plain themselves. All other containers are rebuilt on decoding.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tenure.core import checks
from tenure.errors import ConfigurationError
from tenure.tasks.codecs.annotations import format_annotation
from tenure.tasks.codecs.codec import Codec, ValueMismatch, plain, value_mismatch


def sequence(kinds: tuple[Any, ...], build: Callable[[Iterable[Any]], Any], item: Codec) -> Codec:
    """Return the codec of a sequence: written as an array, rebuilt by `build`."""
    if build is list and item.is_plain:
        return plain(list)
    encode_item, decode_item = item.encode, item.decode

    def encode(value: Any) -> list[Any]:
        if not isinstance(value, kinds):
            raise value_mismatch(value, kinds[0])
        return [encode_item(each) for each in value]

    def decode(value: Any) -> Any:
        if type(value) is not list:
            raise value_mismatch(value, kinds[0])
        return build([decode_item(each) for each in value])

    return Codec(encode=encode, decode=decode, json_types=frozenset({list}))


def set_codec(kinds: tuple[Any, ...], build: Callable[[Iterable[Any]], Any], item: Codec) -> Codec:
    """Return the codec of a set. Its decoded items must be hashable and still distinct."""
    codec = sequence(kinds, build, item)

    def encode(value: Any) -> list[Any]:
        written: list[Any] = codec.encode(value)
        if item.is_plain and not all(isinstance(each, str | int | float | None) for each in written):
            raise ValueMismatch(f"{checks.short_repr(value)} has items that are not written as strings or numbers")
        try:
            is_kept = codec.decode(written) == value
        except TypeError:
            is_kept = False
        if not is_kept:
            raise ValueMismatch(f"{checks.short_repr(value)} would not come back as the same set")
        return written

    return Codec(encode=encode, decode=codec.decode, json_types=codec.json_types)


def fixed_tuple(items: Sequence[Codec]) -> Codec:
    """Return the codec of a tuple with a fixed number of items."""
    encoders = [each.encode for each in items]
    decoders = [each.decode for each in items]
    length = len(items)

    def encode(value: Any) -> list[Any]:
        if not isinstance(value, tuple) or len(value) != length:
            raise ValueMismatch(f"{checks.short_repr(value)} is not a tuple of {length}")
        return [each(part) for each, part in zip(encoders, value, strict=True)]

    def decode(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != length:
            raise ValueMismatch(f"{checks.short_repr(value)} is not a tuple of {length}")
        return tuple([each(part) for each, part in zip(decoders, value, strict=True)])

    return Codec(encode=encode, decode=decode, json_types=frozenset({list}))


def mapping(kind: Any, key: Codec, content: Codec) -> Codec:
    """Return the codec of a mapping: keys are written as strings, and decoding returns a dict."""
    if key.is_plain and content.is_plain:
        return plain(dict)
    encode_key, decode_key = key.encode, key.decode
    encode_content, decode_content = content.encode, content.decode

    def encode(value: Any) -> dict[Any, Any]:
        if not isinstance(value, kind):
            raise value_mismatch(value, kind)
        return _require_same_size(value, {encode_key(name): encode_content(each) for name, each in value.items()})

    def decode(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise value_mismatch(value, kind)
        return _require_same_size(value, {decode_key(name): decode_content(each) for name, each in value.items()})

    return Codec(encode=encode, decode=decode, json_types=frozenset({dict}))


def mapping_key(annotation: Any, codec: Codec) -> Codec:
    """Return the codec of the keys of a mapping. Strings stay as they are; whole numbers become strings."""
    if codec.json_types == {str} or (codec.is_plain and str in codec.json_types):
        return codec
    if codec.json_types != {int}:
        raise ConfigurationError(
            f"{format_annotation(annotation)} cannot be the key of a JSON object; use str, int, UUID, a date or an Enum"
        )

    def encode(value: Any) -> str:
        number = codec.encode(value)
        if type(number) is not int:
            raise value_mismatch(value, annotation)
        return str(number)

    def decode(value: Any) -> Any:
        if str(number := int(value)) != value:
            raise value_mismatch(value, annotation)
        return codec.decode(number)

    return Codec(encode=encode, decode=decode, json_types=frozenset({str}))


def _require_same_size(value: Mapping[Any, Any], translated: dict[Any, Any]) -> dict[Any, Any]:
    if len(translated) != len(value):
        raise ValueMismatch(f"{checks.short_repr(value)} has two keys that are equal in JSON")
    return translated
