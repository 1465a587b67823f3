"""The members of a run: good ones, and bad ones of several kinds spread over the whole order."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tenure.core.job import State

OFTEN, SELDOM, RARELY = 0.01, 0.0005, 0.0001
"""Number of members of a kind, as a fraction of the good members: seldom if they occupy a worker for some time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of members, and what the proof checks for each of them.

    - `share` is the number of members, as a fraction of the good members.
    - Locked members cannot end while another connection holds its locks.
    - No error is logged for good and locked members.
    - `runs` are the possible numbers of runs. With None, the history must explain every run but the last.
    - `error` is a part of the last error in the history.
    - `logged` is a part of a log line about the member; a worker logs it at most once for each claim.
    """

    name: str
    says: str
    share: float = OFTEN
    is_good: bool = False
    is_locked: bool = False
    end: State = State.COMPLETED
    runs: tuple[int, ...] | None = (1,)
    crashes: int | None = 0
    error: str | None = None
    result: object = None
    drops_result: bool = False
    logged: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    id: str
    kind: Kind
    position: int


def mix(good: int, kinds: Sequence[Kind]) -> list[Kind]:
    """Return the kinds in the order of the members: a tenth of the bad ones first, then all others, at random."""
    shuffle = random.Random(good).shuffle
    first: list[Kind] = []
    others: list[Kind] = []
    for kind in kinds:
        number = max(1, round(good * kind.share))
        number_first = 0 if kind.is_good else math.ceil(number / 10)
        first += [kind] * number_first
        others += [kind] * (number - number_first)
    shuffle(first)
    shuffle(others)
    return [*first, *others]


def chosen(members: Sequence[Member], *names: str) -> list[str]:
    """Return the ids of the members of these kinds."""
    return [member.id for member in members if member.kind.name in names]
