"""Test tiers: `./dev test core`, `./dev test` and `./dev test --all` set the tier. The default is tier 2.

0: tests without a server, and the conformance suite on memory. 1: the newest server of each kind, and one process test
of each kind. 2: everything.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

CORE, EVERYTHING = 0, 2
TIER = int(os.environ.get("TEST_TIER", EVERYTHING))

only_in_all = pytest.mark.only_in_all
"""Run the test only in tier 2, because tier 1 has a similar test."""

starts_processes = pytest.mark.starts_processes
"""Skip the test in tier 0, because the test starts a process or a server."""


def amount(everything: T, otherwise: T) -> T:
    """Return `everything` in tier 2, else `otherwise`."""
    return everything if TIER == EVERYTHING else otherwise


def first_in_all_tiers(names: Iterable[str]) -> list[Any]:
    """Return test parameters; only tier 2 runs a parameter after the first."""
    first, *others = names
    return [first, *(pytest.param(each, marks=only_in_all) for each in others)]


def one_of_a_kind(newest_last: Sequence[T]) -> list[T]:
    """Return the server versions to test: all in tier 2, else the newest."""
    return list(newest_last if TIER == EVERYTHING else newest_last[-1:])


RACES = amount(60, 20)
"""Number of races for the same job in the conformance suite."""
