"""Annotations as they stand in the source: read, filled in, and spelt for an error."""

import typing
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from tenure.errors import ConfigurationError


class UndefinedName(Exception):  # noqa: N818 - named after the fact
    """An annotation has a name that is not defined, at least not yet."""


def resolve_hints(source: Any, local: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the annotations of a function or class, with the names in them looked up; also in `local`, if need be."""
    try:
        return typing.get_type_hints(source, include_extras=True)
    except (NameError, AttributeError) as exc:
        if local is None:
            raise UndefinedName(str(exc)) from None
    except (TypeError, SyntaxError) as exc:
        raise ConfigurationError(f"the annotations of {format_annotation(source)} are invalid: {exc}") from None
    try:
        return typing.get_type_hints(source, localns=dict(local), include_extras=True)
    except (NameError, AttributeError) as exc:
        raise UndefinedName(str(exc)) from None


def substitute_variables(annotation: Any, arguments: Mapping[Any, Any]) -> Any:
    """Return the annotation of a generic class's field with the arguments of the class in place of its variables."""
    if isinstance(annotation, TypeVar):
        return arguments.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation
    return annotation[tuple(arguments.get(each, each) for each in variables)] if variables else annotation


def format_annotation(annotation: Any) -> str:
    """Return an annotation as the source has it, more or less."""
    if annotation is type(None):
        return "None"
    if hasattr(annotation, "__name__") and not get_args(annotation):
        return str(annotation.__name__)
    return repr(annotation).replace("typing.", "")
