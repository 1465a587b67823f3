"""The end of a claim: by its holder, or by the reaper; and the prolonging of leases.

What a holder asks for is one JSON text, the same for a statement of ours and for one in a transaction of the caller's.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from tenure.backends.postgres.encoding import duration
from tenure.backends.postgres.pipeline import Step
from tenure.backends.tables.postgres.bound_table import Place
from tenure.backends.tables.postgres.keys import Key
from tenure.core.job import State
from tenure.core.operations import Extension, Hold, Holding, Reaped, Settlement

PREVENTED = "prevented"


class Held(Protocol):
    """Something that only a holder may do."""

    @property
    def hold(self) -> Hold: ...


A = TypeVar("A")
H = TypeVar("H", bound=Held)

Numbered = list[tuple[int, Key, H]]
"""What is asked for, each with its place among all and with the key of its row."""


def rounds(place: Place, asked: Sequence[H]) -> Iterator[Numbered[H]]:
    """Yield what is asked for, so that no round has two of one row: the second has to see what the first did.

    The first round has every row that is named, so all are locked in one order. What names no row is left out.
    """
    waiting = [(number, place.keys.key_of(each.hold.id), each) for number, each in enumerate(asked)]
    known = [(number, key, each) for number, key, each in waiting if key is not None]
    while known:
        first: dict[Key, tuple[int, Key, H]] = {}
        later: Numbered[H] = []
        for number, key, each in known:
            if key in first:
                later.append((number, key, each))
            else:
                first[key] = (number, key, each)
        yield list(first.values())
        known = later


def settling_text(place: Place, asked: Numbered[Settlement], table: str | None = None) -> str:
    """Return what ends these claims, as the statement reads it; `table` is the one that is meant, if that is told."""
    return _text(place, table, [_ending(key, each) for _, key, each in asked])


def extending_text(place: Place, asked: Numbered[Extension], table: str | None = None) -> str:
    """Return what prolongs these leases, as the statement reads it."""
    return _text(place, table, [_extension(key, each) for _, key, each in asked])


class Settling:
    """What ends claims: statements, and how their answers are read."""

    def __init__(self, place: Place, settlements: Sequence[Settlement]) -> None:
        self._number = len(settlements)
        self._rounds = list(rounds(place, settlements))
        self.steps = [place.step("settle", "settle", {"asked": settling_text(place, each)}) for each in self._rounds]

    def landed(self, answers: Sequence[Any]) -> list[bool]:
        """Return which of them landed, by the answers to the steps."""
        return told(self._rounds, answers, [False] * self._number)


def settle(place: Place, settlements: Sequence[Settlement]) -> list[bool]:
    settling = Settling(place, settlements)
    return settling.landed(place.ask(settling.steps) if settling.steps else [])


def extend(place: Place, extensions: Sequence[Extension]) -> list[Holding]:
    asked = list(rounds(place, extensions))
    steps = [place.step("extend", "extend", {"asked": extending_text(place, each)}) for each in asked]
    lost = [Holding.LOST.value] * len(extensions)
    return [Holding(each) for each in told(asked, place.ask(steps) if steps else [], lost)]


def told(asked: Sequence[Numbered[Any]], answers: Sequence[Any], unknown: list[A]) -> list[A]:
    """Return what was answered to each that was asked for; to those that name no row, what is given for them."""
    found = list(unknown)
    for some, answer in zip(asked, answers, strict=True):
        _, _, values = answer
        for (number, _, _), value in zip(some, values, strict=True):
            found[number] = value
    return found


def reap_expired(place: Place, limit: int, token: str | None = None) -> Step:
    """Return what takes back the claims that ran out, unless this token holds rows."""
    return place.step("reap", "expired", {"limit": limit, "token": token, "had": 0})


def reap_worker(place: Place, worker: str, started: Collection[str] | None, limit: int) -> Step:
    """Return what takes back the claims of a worker."""
    keys = [key for id in started or () if (key := place.keys.key_of(id)) is not None]
    values = {"worker": worker, "limit": limit, "all_started": started is None, **place.keys.values(keys)}
    return place.step("reap", "of the worker", values)


def reaped(place: Place, rows: Sequence[Any]) -> list[Reaped]:
    return [
        Reaped(id=place.keys.id_of(key), state=State(state), worker=worker, fence=fence)
        for key, state, worker, fence in rows
    ]


def _text(place: Place, table: str | None, claims: list[dict[str, Any]]) -> str:
    now = place.database.now()
    asked = {"table": table, "now": None if now is None else now.isoformat(), "claims": claims}
    return json.dumps(asked, ensure_ascii=False)


def _ending(key: Key, settlement: Settlement) -> dict[str, Any]:
    added = {
        "result": settlement.result,
        "result_dropped": settlement.result_dropped or None,
        "found_done": PREVENTED if settlement.found_done else None,
    }
    return {
        "key": key,
        "fence": settlement.hold.fence,
        "token": settlement.hold.token,
        "outcome": settlement.outcome,
        "state": settlement.state,
        "attempts": settlement.attempts,
        "delay": None if settlement.delay is None else duration(settlement.delay),
        "error": settlement.error,
        "added": {name: value for name, value in added.items() if value is not None},
    }


def _extension(key: Key, extension: Extension) -> dict[str, Any]:
    progress = extension.progress
    noted = None if progress is None else {"done": progress.done, "of": progress.of, "note": progress.note}
    return {
        "key": key,
        "fence": extension.hold.fence,
        "token": extension.hold.token,
        "lease": duration(extension.lease),
        "added": {} if noted is None else {"progress": noted},
    }
