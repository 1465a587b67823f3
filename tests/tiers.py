"""How much of the suite runs: `./dev test core`, `./dev test` and `./dev test --all` set the tier. By default all runs.

0: what needs no server, and the conformance suite on memory. 1: one server of each kind, the newest, and one scene of
each kind of process test. 2: everything.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

CORE, EVERYTHING = 0, 2
TIER = int(os.environ.get("TEST_TIER", EVERYTHING))

only_in_all = pytest.mark.only_in_all
"""Leave the test to tier 2: tier 1 has another one of its kind."""

starts_processes = pytest.mark.starts_processes
"""Leave the test out of tier 0: it starts a process or a server."""


def amount(everything: T, otherwise: T) -> T:
    """Return how much of something a test makes: the first in tier 2, else the second."""
    return everything if TIER == EVERYTHING else otherwise


def first_in_all_tiers(names: Iterable[str]) -> list[Any]:
    """Return these as parameters of a test, of which all but the first are left to tier 2."""
    first, *others = names
    return [first, *(pytest.param(each, marks=only_in_all) for each in others)]


def one_of_a_kind(newest_last: Sequence[T]) -> list[T]:
    """Return the versions of a server that tests run on: in tier 2 all of them, else the newest."""
    return list(newest_last if TIER == EVERYTHING else newest_last[-1:])


RACES = amount(60, 20)
"""How often requests race for the same job in the conformance suite."""
