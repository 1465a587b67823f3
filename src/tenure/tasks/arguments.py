"""Convert the arguments and the result of a function to JSON and back, by its annotations.

A payload names every argument, so it can be read without the function, and the order of the parameters may change.
`decode_call` returns values equal to those that `encode_call` received. A payload without values to convert is returned
as it is, without a copy.
"""

import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, get_args, get_origin

from tenure.core import checks
from tenure.core.answers import Answer, Fail
from tenure.core.payload import unreadable_reason
from tenure.errors import ConfigurationError, InvalidPayload
from tenure.tasks.codecs.annotations import UndefinedName, format_annotation, resolve_hints
from tenure.tasks.codecs.codec import Codec
from tenure.tasks.values import Codecs

REMEDIES = {
    inspect.Parameter.VAR_POSITIONAL: "use a list parameter instead",
    inspect.Parameter.VAR_KEYWORD: "use a dict parameter instead",
    inspect.Parameter.POSITIONAL_ONLY: "remove the `/`",
}


class Arguments:
    """The parameters and the result of a function. Annotations are resolved at once, or, if undefined, on first use."""

    result_is_plain: bool
    """Whether results need no conversion; False until the annotations are resolved."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        self._signature = _signature(function, name)
        parameters = self._signature.parameters.values()
        for each in parameters:
            if each.kind in REMEDIES:
                raise ConfigurationError(
                    f"a task needs named parameters, but {self} has {str(each)!r}; {REMEDIES[each.kind]}"
                )
        self._positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        self._known = frozenset(each.name for each in parameters)
        self._required = frozenset(each.name for each in parameters if each.default is each.empty)
        self._annotations: dict[str, Any] = {}
        self._codecs: list[tuple[str, Codec]] = []
        self._result: Codec | None = None
        self._is_resolved = False
        self.result_is_plain = False
        with suppress(UndefinedName):
            self._resolve()

    def __str__(self) -> str:
        return f"{self._name}{self._signature}"

    def resolve(self) -> None:
        """Resolve the annotations if necessary; raise `ConfigurationError` for an undefined name."""
        if self._is_resolved:
            return
        try:
            self._resolve()
        except UndefinedName as exc:
            raise ConfigurationError(
                f"cannot resolve the annotations of {self}: {exc}; "
                "define or import it at module level, not only under TYPE_CHECKING"
            ) from None

    def encode_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, as JSON. Defaults are not stored: the worker applies its own."""
        self.resolve()
        given = dict(zip(self._positional, args, strict=False))
        if len(args) > len(self._positional):
            raise ConfigurationError(f"too many positional arguments for {self}: {len(args)}")
        if kwargs:
            if twice := given.keys() & kwargs.keys():
                raise ConfigurationError(f"{self} got argument {min(twice)!r} twice")
            given.update(kwargs)
        if not self._required <= given.keys() <= self._known:
            raise self._wrong_arguments_error(given)
        for name, codec in self._codecs:
            if name in given:
                given[name] = self._translate(f"argument {name!r}", name, codec.encode, given[name])
        return given

    def decode_call(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the call that a payload describes.

        A payload that cannot be read fails the job for good: another attempt reads the same text.
        """
        if not self._is_resolved:
            self.resolve()
        try:
            keys = payload.keys()
        except AttributeError:
            raise Fail(
                f"the payload cannot be read: {unreadable_reason(payload)}; enqueue a new job in place of this one"
            ) from None
        if not self._required <= keys <= self._known:
            raise self._payload_mismatch_error(payload)
        if not self._codecs:
            return payload  # type: ignore[return-value]  # a call takes any mapping
        given = dict(payload)
        for name, codec in self._codecs:
            if name in given:
                given[name] = self._translate(f"the payload's {name!r}", name, codec.decode, given[name])
        return given

    def encode_result(self, value: Any) -> Any:
        """Return a result as JSON, by the return annotation of the function."""
        self.resolve()
        return value if self._result is None else self._translate("the result", "return", self._result.encode, value)

    def decode_result(self, value: Any) -> Any:
        """Return a result from its JSON."""
        self.resolve()
        return value if self._result is None else self._translate("the result", "return", self._result.decode, value)

    def _resolve(self) -> None:
        annotations = resolve_hints(_annotated_function(self._function))
        annotations["return"] = _result_annotation(annotations.get("return", Any))
        found = Codecs()
        codecs = {}
        for name in [*self._signature.parameters, "return"]:
            codecs[name] = self._find_codec(found, name, annotations.get(name, Any))
        result = codecs.pop("return")
        self._annotations = annotations
        self._codecs = [(name, each) for name, each in codecs.items() if not each.is_plain]
        self._result = None if result.is_plain else result
        self.result_is_plain = result.is_plain
        self._is_resolved = True

    def _find_codec(self, codecs: Codecs, name: str, annotation: Any) -> Codec:
        what = "the result" if name == "return" else f"parameter {name!r}"
        try:
            return codecs.find(annotation)
        except ConfigurationError as exc:
            raise ConfigurationError(
                f"{what} of {self._name} is annotated {format_annotation(annotation)}: {exc}"
            ) from None
        except RecursionError:
            raise ConfigurationError(
                f"{what} of {self._name} is annotated {format_annotation(annotation)}, a type that expands without "
                "end; use a class that refers to itself without new type arguments"
            ) from None

    def _translate(self, what: str, name: str, translate: Callable[[Any], Any], value: Any) -> Any:
        try:
            return translate(value)
        except Exception as exc:
            # A constructor of the user may raise anything: the value does not fit the annotation.
            raise InvalidPayload(
                f"{what} of {self._name} is annotated {format_annotation(self._annotations[name])}, "
                f"but the value is {checks.short_repr(value)}: {exc}"
            ) from exc

    def _wrong_arguments_error(self, given: Mapping[str, Any]) -> ConfigurationError:
        for each in given:
            if each not in self._known:
                return ConfigurationError(f"{self} has no argument {each!r}{checks.did_you_mean(each, self._known)}")
        return ConfigurationError(f"{self} needs the argument {self._first_missing(given)!r}")

    def _payload_mismatch_error(self, payload: Mapping[str, Any]) -> InvalidPayload:
        for each in payload:
            if each not in self._known:
                return InvalidPayload(
                    f"the payload has {each!r}, but {self} has no such parameter; "
                    "keep a parameter while stored jobs have it"
                )
        return InvalidPayload(
            f"the payload lacks {self._first_missing(payload)!r} of {self}; "
            "give a new parameter a default while stored jobs lack it"
        )

    def _first_missing(self, given: Mapping[str, Any]) -> str:
        return next(each for each in self._signature.parameters if each in self._required and each not in given)


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as exc:
        raise ConfigurationError(f"task {name!r} must be a function with a signature: {exc}") from None


def _annotated_function(function: Any) -> Any:
    """Return the function with the annotations: unwrap decorators and partials; use `__call__` of an object."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) else type(function).__call__


def _result_annotation(annotation: Any) -> Any:
    """Return the annotation of the awaited result, without the classes of answers."""
    if get_origin(annotation) in {Awaitable, Coroutine}:
        annotation = get_args(annotation)[-1]
    if get_origin(annotation) not in {typing.Union, types.UnionType}:
        return Any if _is_answer(annotation) else annotation
    results = tuple(each for each in get_args(annotation) if not _is_answer(each))
    return typing.Union[results] if results else Any  # noqa: UP007 - a variable number of members


def _is_answer(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Answer)
