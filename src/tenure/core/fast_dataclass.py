"""A quicker way to build values that are made by the thousand."""

from collections.abc import Callable
from copy import copy
from dataclasses import Field, fields, make_dataclass
from typing import Any, TypeVar, cast

T = TypeVar("T")


def fast_constructor(kind: type[T]) -> Callable[..., T]:
    """Return what builds the same values as this frozen, slotted dataclass, in a third of the time.

    It takes the fields in their order: to find their places by their names costs more than all the rest. And a frozen
    dataclass pays for each field that its constructor sets; here a value begins as an open twin with the same slots,
    and takes its own class when it is filled. The class must not have a `__post_init__`.
    """

    def freeze(self: Any) -> None:
        self.__class__ = kind

    mutable = make_dataclass(
        f"Open{kind.__name__}",
        [(each.name, each.type, _as_positional(each)) for each in fields(cast("Any", kind))],
        namespace={"__post_init__": freeze},
        slots=True,
        eq=False,
        repr=False,
    )
    return cast("Callable[..., T]", mutable)


def _as_positional(field: "Field[Any]") -> "Field[Any]":
    positional = copy(field)
    positional.kw_only = False
    return positional
