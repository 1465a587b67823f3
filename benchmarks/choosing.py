"""Select contestants by name."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tenure.core import checks


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def chosen(names: Sequence[str], field: Sequence[N]) -> list[N]:
    """Return the named contestants, or all without names; raise for an unknown name."""
    known = [each.name for each in field]
    for name in names:
        checks.choice("--only", name, known)
    return [each for each in field if not names or each.name in names]
