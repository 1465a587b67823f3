"""Take rows: what ran out is taken back, then the first that are due are taken, in one transaction."""

import logging
from collections.abc import Sequence
from typing import Any

import psycopg

from tenure.backends.postgres.encoding import duration
from tenure.backends.postgres.pipeline import Step, Values
from tenure.backends.protocol import SWEEP
from tenure.backends.tables.postgres.bound_table import Place
from tenure.backends.tables.postgres.rows import Row
from tenure.backends.tables.postgres.settle import reap_expired
from tenure.core.operations import Claimed, ClaimRequest
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

MOST_LOOKS = 10
"""How often a claim looks again, when others took what it was about to take."""


def claim(place: Place, request: ClaimRequest) -> Claimed:
    *_, answer = answers_to(place, [], request)
    return outcome(place, request, answer)


def answers_to(place: Place, before: Sequence[Step], request: ClaimRequest) -> list[Any]:
    """Do what comes before, and claim; return what each step answers, the claim last.

    If `done_if` fails on a row that ran out, only what ran out has to wait until that is mended, not what is due.
    """
    reap, take = steps(place, request)
    try:
        return place.ask([*before, reap, take])
    except ConfigurationError as exc:
        if place.spec.done_if is None or not isinstance(exc.__cause__, psycopg.DataError):
            raise
        answers = place.ask([*before, take])
        log.error("what ran out cannot be taken back: %s", exc)  # noqa: TRY400 - it tells all
        return answers


def steps(place: Place, request: ClaimRequest) -> list[Step]:
    """Return what a claim does: what ran out is taken back, then rows are taken."""
    return [reap_expired(place, SWEEP, request.token), _take(place, request)]


def outcome(place: Place, request: ClaimRequest, answer: Any) -> Claimed:
    """Return what a claim took; if others were first with some of it, look again."""
    is_held, number, rows = answer
    taken: list[Row] = list(rows)
    for _ in range(MOST_LOOKS):
        if is_held or len(rows) == number:
            break
        again = _take(place, request, limit=request.limit - len(taken), had=len(taken))
        ((is_held, number, rows),) = place.ask([again])
        taken += rows
    if is_held:
        (taken,) = place.ask([place.step("claim", "held", {"token": request.token})])
    return Claimed(jobs=place.reader().jobs(taken))


def _take(place: Place, request: ClaimRequest, *, limit: int | None = None, had: int = 0) -> Step:
    values: Values = {
        "limit": request.limit if limit is None else limit,
        "token": request.token,
        "had": had,
        "worker": request.worker,
        "lease": duration(request.lease),
    }
    return place.step("claim", "take", values)
