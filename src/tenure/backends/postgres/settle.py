"""The end of a claim: by its holder, or by the reaper."""

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import array, duration, numbers, optional_array, texts
from tenure.backends.postgres.pipeline import Step
from tenure.core.job import State
from tenure.core.operations import EVIDENCE_KEPT, Hold, Reaped, Settlement


class Held(Protocol):
    """Something that only a holder may do."""

    @property
    def hold(self) -> Hold: ...


H = TypeVar("H", bound=Held)


class Settling:
    """What ends claims: statements, and how their answers are read."""

    def __init__(self, database: Database, settlements: Sequence[Settlement]) -> None:
        self._parts = [_by_kind(part) for part in _parts(settlements)]
        self._number = len(settlements)
        self.steps = [lock_step(database, settlements)] if settlements else []
        for complete, end in self._parts:
            if complete:
                self.steps.append(_completing(database, [settlement for _, settlement in complete]))
            if end:
                self.steps.append(_ending(database, [settlement for _, settlement in end]))

    @property
    def only_completes(self) -> bool:
        """Whether no job becomes claimable by them, and none is asked for twice."""
        return all(not end for _, end in self._parts)

    def landed(self, answers: Sequence[Any]) -> list[bool]:
        """Return which of them landed, by the answers to the steps."""
        landed = [True] * self._number
        remaining = iter(answers[1:])
        for kinds in self._parts:
            for kind in kinds:
                for number in next(remaining) if kind else ():
                    landed[kind[number - 1][0]] = False
        return landed


def settle(database: Database, settlements: Sequence[Settlement]) -> list[bool]:
    settling = Settling(database, settlements)
    return settling.landed(database.ask(settling.steps)) if settling.steps else []


def reap_expired(database: Database, limit: int, token: str | None = None) -> Step:
    """Return what takes back the claims that ran out, unless this token holds jobs."""
    values = {"limit": limit, "token": token, "evidence_kept": duration(EVIDENCE_KEPT), "now": database.now()}
    return Step(database.statements["reap"]["expired"], values)


def reap_worker(database: Database, worker: str, started: Collection[str] | None, limit: int) -> Step:
    """Return what takes back the claims of a worker."""
    values = {
        "worker": worker,
        "started": optional_array(started),
        "limit": limit,
        "evidence_kept": duration(EVIDENCE_KEPT),
        "now": database.now(),
    }
    return Step(database.statements["reap"]["of the worker"], values)


def reaped(rows: Sequence[Any]) -> list[Reaped]:
    return [Reaped(id=id, state=State(state), worker=worker, fence=fence) for id, state, worker, fence in rows]


def each_job_once(asked: Sequence[H]) -> Iterator[list[H]]:
    """Yield them in parts, so that no part has two of one job: the second has to see what the first did."""
    if len({each.hold.id for each in asked}) == len(asked):
        yield list(asked)
        return
    part: dict[str, H] = {}
    for each in asked:
        if each.hold.id in part:
            yield list(part.values())
            part = {}
        part[each.hold.id] = each
    yield list(part.values())


def lock_step(database: Database, asked: Sequence[Held]) -> Step:
    """Return what locks all jobs that are named, in one order."""
    return Step(database.statements["settle"]["lock"], {"ids": texts([each.hold.id for each in asked])})


def hold_values(asked: Sequence[Held]) -> dict[str, Any]:
    """Return what the holders show."""
    return {
        "ids": texts([each.hold.id for each in asked]),
        "fences": numbers(each.hold.fence for each in asked),
        "tokens": texts([each.hold.token for each in asked]),
    }


Numbered = list[tuple[int, Settlement]]
"""Settlements, each with its place among all."""


def _parts(settlements: Sequence[Settlement]) -> Iterator[Numbered]:
    numbers = count()
    for part in each_job_once(settlements):
        yield [(next(numbers), settlement) for settlement in part]


def _by_kind(part: Numbered) -> tuple[Numbered, Numbered]:
    """Return those that complete, and those that end in another way."""
    complete = [(number, each) for number, each in part if each.state is State.COMPLETED]
    if len(complete) == len(part):
        return part, []
    return complete, [(number, each) for number, each in part if each.state is not State.COMPLETED]


def _completing(database: Database, settlements: Sequence[Settlement]) -> Step:
    values = {
        **hold_values(settlements),
        "results": texts([each.result for each in settlements]),
        "results_dropped": numbers(each.result_dropped for each in settlements),
        "now": database.now(),
    }
    return Step(database.statements["settle"]["complete"], values)


def _ending(database: Database, settlements: Sequence[Settlement]) -> Step:
    values = {
        **hold_values(settlements),
        "outcomes": array(each.outcome for each in settlements),
        "states": array(each.state for each in settlements),
        "attempts": array(each.attempts for each in settlements),
        "delays": array(None if each.delay is None else duration(each.delay) for each in settlements),
        "errors": array(each.error for each in settlements),
        "now": database.now(),
    }
    return Step(database.statements["settle"]["end"], values)
