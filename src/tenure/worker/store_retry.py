"""A store that may go away: what was asked is asked again, under the same token, until it answers."""

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tenure.client.keeper import ticks
from tenure.core.operations import Claimed, ClaimRequest, Settlement
from tenure.errors import StoreUnavailable

log = logging.getLogger(__name__)

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two tries: a store that is back is noticed within a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked in one round trip: to settle, to claim, or both."""

    settlements: list[Settlement]
    request: ClaimRequest | None
    sent_at: float
    """When it was first sent: from then on its leases count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    landed: list[bool]
    claimed: Claimed | None


class Answering(Protocol):
    """What can be asked: the part of `Claiming` that a claimer needs. See there."""

    def claim(self, request: ClaimRequest) -> Claimed: ...

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]: ...

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]: ...


class PatientStore:
    """Says once that the store does not answer, and once that it does again."""

    def __init__(self, store: Answering) -> None:
        self._store = store
        self._failing_since: float | None = None
        self._pause = SHORTEST_PAUSE

    @property
    def is_failing(self) -> bool:
        return self._failing_since is not None

    def ask(self, question: Question) -> Answer | None:
        """Return the answer; None if there was none, and it has to be asked again after `pause` seconds."""
        try:
            answer = self._ask(question)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the worker goes on; what was asked can be asked again
            self._note_failure(exc)
            return None
        self._note_success()
        return answer

    def pause(self) -> float:
        """Return how long to wait before the next try: longer each time, and unevenly."""
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        return self._pause * random.uniform(0.5, 1.0)

    def _ask(self, question: Question) -> Answer:
        settlements, request = question.settlements, question.request
        if request is None:
            return Answer(landed=self._store.settle(settlements), claimed=None)
        if not settlements:
            return Answer(landed=[], claimed=self._store.claim(request))
        landed, claimed = self._store.exchange(settlements, request)
        return Answer(landed=landed, claimed=claimed)

    def _note_failure(self, exc: Exception) -> None:
        if self._failing_since is not None:
            return
        self._failing_since = ticks()
        if isinstance(exc, StoreUnavailable):
            log.warning("the store does not answer, trying on: %s", exc)
        else:
            log.error("the store cannot be used, trying on", exc_info=exc)

    def _note_success(self) -> None:
        if self._failing_since is not None:
            log.warning("the store answers again, after %.1f s", ticks() - self._failing_since)
        self._failing_since = None
        self._pause = SHORTEST_PAUSE
