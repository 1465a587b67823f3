"""Codecs of dataclasses, named tuples and typed dicts, written as a JSON object."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Annotated, Any, NotRequired, Required, get_origin

from tenure.core import checks
from tenure.errors import ConfigurationError
from tenure.tasks.codecs.annotations import format_annotation, resolve_hints, substitute_variables
from tenure.tasks.codecs.codec import Codec, ValueMismatch, plain, value_mismatch

FindCodec = Callable[[Any], Codec]
"""Returns the codec of an annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    codec: Codec
    is_required: bool


def is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (is_typed_dict(kind) or is_named_tuple(kind) or dataclasses.is_dataclass(kind))


def is_typed_dict(kind: type) -> bool:
    # Not `typing.is_typeddict`, which does not recognize those of typing_extensions.
    return issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def record(kind: Any, arguments: Sequence[Any], find: FindCodec) -> Codec:
    """Return the codec of a class with fields; `arguments` are the type arguments of a generic class."""
    variables = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    hints = {
        name: substitute_variables(each, variables) for name, each in resolve_hints(kind, {kind.__name__: kind}).items()
    }
    if is_typed_dict(kind):
        return _typed_dict(kind, hints, find)
    if is_named_tuple(kind):
        return _object_codec(kind, _named_tuple_fields(kind, hints, find))
    return _object_codec(kind, _dataclass_fields(kind, hints, find))


def _dataclass_fields(kind: Any, hints: Mapping[str, Any], find: FindCodec) -> list[Field]:
    fields = [each for each in dataclasses.fields(kind) if each.init]
    if {each.name for each in fields} != set(inspect.signature(kind).parameters):
        raise ConfigurationError(
            f"{format_annotation(kind)} cannot be built from its fields: its constructor has other parameters; "
            "use a dataclass without InitVar and without a custom __init__"
        )
    return [
        Field(
            name=each.name,
            codec=find(hints[each.name]),
            is_required=each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields
    ]


def _named_tuple_fields(kind: Any, hints: Mapping[str, Any], find: FindCodec) -> list[Field]:
    return [
        Field(name=name, codec=find(hints.get(name, Any)), is_required=name not in kind._field_defaults)
        for name in kind._fields
    ]


def _object_codec(kind: Any, fields: Sequence[Field]) -> Codec:
    """Return the codec of a class that is constructed from its fields."""
    encoders = {each.name: each.codec.encode for each in fields}
    decode_fields = _decoder(kind, fields)
    has_equality = kind.__eq__ is not object.__eq__

    def encode(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise value_mismatch(value, kind)
        parts = {name: getattr(value, name) for name in encoders}
        # The constructor may change or reject the fields; better here than when the job runs.
        again = kind(**parts)
        if has_equality and again != value:
            raise ValueMismatch(f"{checks.short_repr(value)} is not equal to an instance built from its fields")
        return {name: encoders[name](part) for name, part in parts.items()}

    def decode(value: Any) -> Any:
        return kind(**decode_fields(value))

    return Codec(encode=encode, decode=decode, json_types=frozenset({dict}))


def _typed_dict(kind: Any, hints: Mapping[str, Any], find: FindCodec) -> Codec:
    fields = [
        Field(name=name, codec=find(each), is_required=_is_required(each, name in kind.__required_keys__))
        for name, each in hints.items()
    ]
    if all(each.codec.is_plain for each in fields):
        return plain(dict)
    encoders = {each.name: each.codec.encode for each in fields}
    check = _field_checker(kind, fields)

    def encode(value: Any) -> dict[str, Any]:
        check(value)
        return {name: encoders[name](each) for name, each in value.items()}

    return Codec(encode=encode, decode=_decoder(kind, fields), json_types=frozenset({dict}))


def _is_required(annotation: Any, otherwise: bool) -> bool:  # noqa: FBT001 - the default
    """Return whether a key is required. The class itself does not know if its annotations are strings."""
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    origin = get_origin(annotation)
    return origin is Required if origin in {Required, NotRequired} else otherwise


def _decoder(kind: Any, fields: Sequence[Field]) -> Callable[[Any], dict[str, Any]]:
    decoders = {each.name: each.codec.decode for each in fields}
    check = _field_checker(kind, fields)

    def decode(value: Any) -> dict[str, Any]:
        check(value)
        return {name: decoders[name](each) for name, each in value.items()}

    return decode


def _field_checker(kind: Any, fields: Sequence[Field]) -> Callable[[Any], None]:
    """Return a function that rejects a dict with missing or unknown fields."""
    known = frozenset(each.name for each in fields)
    required = frozenset(each.name for each in fields if each.is_required)

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise value_mismatch(value, kind)
        if missing := required - value.keys():
            raise ValueMismatch(f"{checks.short_repr(value)} lacks {min(missing)!r} of {format_annotation(kind)}")
        if not known.issuperset(value):
            unknown = next(each for each in value if each not in known)
            raise ValueMismatch(
                f"{format_annotation(kind)} has no field {unknown!r}{checks.did_you_mean(unknown, known)}"
            )

    return check
