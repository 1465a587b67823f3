"""Find the codec of an annotation: two functions that convert its values to JSON and back.

The codec is built once for each annotation. An annotation is rejected if its values cannot be written as JSON, or would
not come back equal. Decoding never imports or calls anything by a name in the data.
"""

import collections
import enum
import inspect
import types
import typing
from collections import abc
from collections.abc import Callable, Collection
from typing import Any, get_args, get_origin

from tenure.errors import ConfigurationError
from tenure.tasks.codecs import containers, models, records, unions
from tenure.tasks.codecs.annotations import format_annotation, substitute_variables
from tenure.tasks.codecs.codec import JSON_TYPES, Codec, deferred, plain

SUPPORTED_TYPES = (
    "plain JSON values, datetime, date, time, timedelta, UUID, Decimal, bytes, Path, an Enum, a dataclass, TypedDict "
    "or NamedTuple, a model of msgspec or pydantic, or lists, tuples, sets and dicts of these"
)

ANY_JSON = plain(*JSON_TYPES)

PLAIN: dict[Any, Codec] = {
    None: plain(types.NoneType),
    types.NoneType: plain(types.NoneType),
    bool: plain(bool),
    int: plain(int),
    float: plain(int, float),
    str: plain(str),
    typing.LiteralString: plain(str),
    Any: ANY_JSON,
    object: ANY_JSON,
    inspect.Parameter.empty: ANY_JSON,
    typing.NoReturn: ANY_JSON,
    typing.Never: ANY_JSON,
}

SEQUENCES: dict[Any, Callable[[Any], Any]] = {
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    list: list,
    collections.deque: collections.deque,
}
SETS: dict[Any, Callable[[Any], Any]] = {
    set: set,
    frozenset: frozenset,
    abc.Set: frozenset,
    abc.MutableSet: set,
}
MAPPINGS = {dict, abc.Mapping, abc.MutableMapping}
WRAPPERS = {
    typing.Annotated,
    typing.Final,
    typing.ClassVar,
    typing.Required,
    typing.NotRequired,
    getattr(typing, "ReadOnly", typing.Required),
}


def codec_of(annotation: Any) -> Codec | None:
    """Return the codec of an annotation, or None for plain JSON, which needs no conversion."""
    found = Codecs().find(annotation)
    return None if found.is_plain else found


class Codecs:
    """Finds the codecs of the annotations of one function. Each class has one codec, so a class may contain itself."""

    def __init__(self) -> None:
        self._found: dict[Any, Codec] = {}
        self._open: set[Any] = set()

    def find(self, annotation: Any) -> Codec:
        """Return the codec of an annotation, or raise `ConfigurationError` if there is none."""
        annotation = _unwrap(annotation)
        kind = get_origin(annotation) or annotation
        if not isinstance(annotation, abc.Hashable) or getattr(annotation, "__unpacked__", False):
            raise _unsupported_error(annotation)
        if annotation in PLAIN:
            return PLAIN[annotation]
        found = (
            self._alias_or_union(kind, annotation) or self._container(kind, annotation) or self._class(kind, annotation)
        )
        if found is None:
            raise _unsupported_error(annotation)
        return found

    def _alias_or_union(self, kind: Any, annotation: Any) -> Codec | None:
        if type(kind).__name__ == "TypeAliasType":
            variables = dict(zip(kind.__type_params__, get_args(annotation), strict=False))
            return self._find_once(
                annotation, JSON_TYPES, lambda: self.find(substitute_variables(kind.__value__, variables))
            )
        if kind in {typing.Union, types.UnionType}:
            return self._union(annotation, get_args(annotation))
        if kind is typing.Literal:
            return self._union(annotation, tuple(dict.fromkeys(map(type, get_args(annotation)))))
        return None

    def _union(self, annotation: Any, members: tuple[Any, ...]) -> Codec:
        return unions.union(annotation, [(each, self.find(each)) for each in members])

    def _container(self, kind: Any, annotation: Any) -> Codec | None:
        arguments = get_args(annotation)
        first = arguments[0] if arguments else Any
        if kind is tuple and arguments[1:] != (...,) and annotation not in {tuple, typing.Tuple}:  # noqa: UP006
            return containers.fixed_tuple([self.find(each) for each in arguments])
        if kind is tuple:
            return containers.sequence((tuple,), tuple, self.find(first))
        if kind in SEQUENCES:
            kinds = (kind,) if kind in {list, collections.deque} else (list, tuple)
            return containers.sequence(kinds, SEQUENCES[kind], self.find(first))
        if kind in SETS:
            return containers.set_codec((kind,), SETS[kind], self.find(first))
        if kind in MAPPINGS:
            key, content = arguments or (Any, Any)
            return containers.mapping(kind, containers.mapping_key(key, self.find(key)), self.find(content))
        return None

    def _class(self, kind: Any, annotation: Any) -> Codec | None:
        if not isinstance(kind, type):
            return None
        if models.is_model(kind):
            return models.model(kind, annotation)
        if records.is_record(kind):
            return self._find_once(annotation, {dict}, lambda: records.record(kind, get_args(annotation), self.find))
        # Imported here to save start-up time for programs that use no such types.
        from tenure.tasks.codecs import enums, scalars

        return enums.enumeration(kind) if issubclass(kind, enum.Enum) else scalars.scalar_codec_of(kind)

    def _find_once(self, annotation: Any, json_types: Collection[type], make: Callable[[], Codec]) -> Codec:
        """Return the codec from `make`. During the call, nested references get a deferred codec."""
        if annotation in self._found:
            return self._found[annotation]
        if annotation in self._open:
            return deferred(lambda: self._found[annotation], json_types)
        self._open.add(annotation)
        found = self._found[annotation] = make()
        return found


def _unwrap(annotation: Any) -> Any:
    """Unwrap `Annotated`, `Final`, a `NewType` and the like. A type variable becomes `Any`."""
    kind = get_origin(annotation) or annotation
    if isinstance(kind, typing.TypeVar):
        return Any
    if isinstance(kind, typing.NewType):
        return _unwrap(kind.__supertype__)
    if isinstance(kind, abc.Hashable) and kind in WRAPPERS:
        return _unwrap(next(iter(get_args(annotation)), Any))
    return annotation


def _unsupported_error(annotation: Any) -> ConfigurationError:
    return ConfigurationError(f"{format_annotation(annotation)} cannot be written as JSON; use {SUPPORTED_TYPES}")
