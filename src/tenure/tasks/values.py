"""Which values an annotation stands for, and how they are written as JSON.

An annotation is looked at once and becomes two functions. It is refused then if its values cannot be written, or not
so that they come back equal; nothing is ever imported, called or built by a name that stands in the data.
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
    """Return how values of this annotation are written and read, or None for plain JSON, which is left as it is."""
    found = Codecs().find(annotation)
    return None if found.is_plain else found


class Codecs:
    """Finds the codecs of annotations that belong together, each class once, so that a class may hold its own kind."""

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
        # Only who uses such a value imports the modules that it comes from.
        from tenure.tasks.codecs import enums, scalars

        return enums.enumeration(kind) if issubclass(kind, enum.Enum) else scalars.scalar_codec_of(kind)

    def _find_once(self, annotation: Any, json_types: Collection[type], make: Callable[[], Codec]) -> Codec:
        """Return the codec that `make` makes; while it is made, one that will be the same."""
        if annotation in self._found:
            return self._found[annotation]
        if annotation in self._open:
            return deferred(lambda: self._found[annotation], json_types)
        self._open.add(annotation)
        found = self._found[annotation] = make()
        return found


def _unwrap(annotation: Any) -> Any:
    """Return what stands inside `Annotated`, `Final`, a new type and the like; a type variable may be anything."""
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
