"""Resolve, substitute and format annotations."""

import typing
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from tenure.errors import ConfigurationError


class UndefinedName(Exception):  # noqa: N818 - named after the fact
    """An annotation has a name that is not defined, or not yet."""


def resolve_hints(source: Any, local: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the resolved annotations of a function or class. Names that are not global are looked up in `local`."""
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
    """Substitute the type variables of a generic class in the annotation of a field."""
    if isinstance(annotation, TypeVar):
        return arguments.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation
    return annotation[tuple(arguments.get(each, each) for each in variables)] if variables else annotation


def format_annotation(annotation: Any) -> str:
    """Format an annotation for an error message, roughly as in the source."""
    if annotation is type(None):
        return "None"
    if hasattr(annotation, "__name__") and not get_args(annotation):
        return str(annotation.__name__)
    return repr(annotation).replace("typing.", "")
