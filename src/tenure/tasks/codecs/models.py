"""Codecs of msgspec and pydantic models, which use these libraries.

This module imports neither: a model class can exist only if the program has imported its library.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from tenure.core import checks
from tenure.tasks.codecs.codec import JSON_TYPES, Codec, ValueMismatch, value_mismatch


def is_model(kind: type) -> bool:
    return _is_struct(kind) or hasattr(kind, "__pydantic_validator__")


def model(kind: Any, annotation: Any) -> Codec:
    """Return the codec of a model; `annotation` is the class with its type arguments."""
    return _struct(kind, annotation) if _is_struct(kind) else _pydantic(kind, annotation)


def _is_struct(kind: type) -> bool:
    msgspec: Any = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(kind, msgspec.Struct)


def _struct(kind: Any, annotation: Any) -> Codec:
    msgspec: Any = sys.modules["msgspec"]

    def write(value: Any) -> Any:
        return msgspec.to_builtins(value, str_keys=True)

    def read(value: Any) -> Any:
        return msgspec.convert(value, annotation, str_keys=True)

    written = list if kind.__struct_config__.array_like else dict
    return _verified_codec(kind, write, read, frozenset({written}))


def _pydantic(kind: Any, annotation: Any) -> Codec:
    pydantic: Any = sys.modules["pydantic"]
    adapter = pydantic.TypeAdapter(annotation)

    def write(value: Any) -> Any:
        return adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings="error")

    def read(value: Any) -> Any:
        # Validate JSON, not Python objects: a strict model accepts a date as text only in JSON.
        return adapter.validate_json(json.dumps(value))

    is_root = getattr(kind, "__pydantic_root_model__", False)
    return _verified_codec(kind, write, read, JSON_TYPES if is_root else frozenset({dict}))


def _verified_codec(
    kind: Any, write: Callable[[Any], Any], read: Callable[[Any], Any], json_types: frozenset[type]
) -> Codec:
    """Return a codec that decodes each encoding as a check: only the model knows whether it hides or changes data."""
    has_equality = kind.__eq__ is not object.__eq__

    def encode(value: Any) -> Any:
        if type(value) is not kind:
            raise value_mismatch(value, kind)
        text = write(value)
        again = read(text)
        if has_equality and again != value:
            raise ValueMismatch(f"{checks.short_repr(value)} would come back as {checks.short_repr(again)}")
        return text

    return Codec(encode=encode, decode=read, json_types=json_types)
