"""Claim rows: reap expired claims, then take the first due rows, in one transaction."""

import logging
from collections.abc import Sequence
from typing import Any

import psycopg

from tenure.backends.postgres.encoding import microseconds
from tenure.backends.postgres.pipeline import BoundQuery, QueryValues
from tenure.backends.postgres.rows import JsonRow
from tenure.backends.protocol import SWEEP
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.settle import reap_expired_query
from tenure.core.operations import Claimed, ClaimRequest
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

MOST_CLAIM_RETRIES = 10
"""How often a claim retries when other transactions took the rows that it had found."""


def claim(bound_table: BoundTable, request: ClaimRequest) -> Claimed:
    *_, result = execute_claim(bound_table, [], request)
    return read_outcome(bound_table, request, result)


def execute_claim(bound_table: BoundTable, preceding: Sequence[BoundQuery], request: ClaimRequest) -> list[Any]:
    """Run the preceding queries and the claim; return all results, the claim last.

    If `done_if` raises an error on an expired row, claim without reaping: due rows must not wait until the user fixes
    the condition.
    """
    reap, take = queries(bound_table, request)
    try:
        return bound_table.execute([*preceding, reap, take])
    except ConfigurationError as exc:
        if bound_table.spec.done_if is None or not isinstance(exc.__cause__, psycopg.DataError):
            raise
        results = bound_table.execute([*preceding, take])
        log.error("expired claims not reaped: %s", exc)  # noqa: TRY400 - the message is complete
        return results


def queries(bound_table: BoundTable, request: ClaimRequest) -> list[BoundQuery]:
    """Return the queries of a claim: reap expired claims, then take rows."""
    return [reap_expired_query(bound_table, SWEEP, request.token), _take_query(bound_table, request)]


def read_outcome(bound_table: BoundTable, request: ClaimRequest, result: Any) -> Claimed:
    """Return the claimed rows; retry if other transactions took some of the rows first."""
    is_held, number, rows = result
    taken: list[JsonRow] = list(rows)
    for _ in range(MOST_CLAIM_RETRIES):
        if is_held or len(rows) == number:
            break
        retry_query = _take_query(bound_table, request, limit=request.limit - len(taken), already_taken=len(taken))
        ((is_held, number, rows),) = bound_table.execute([retry_query])
        taken += rows
    if is_held:
        (taken,) = bound_table.execute([bound_table.build_query("claim", "held", {"token": request.token})])
    return Claimed(jobs=bound_table.reader().decode_jobs(taken))


def _take_query(
    bound_table: BoundTable, request: ClaimRequest, *, limit: int | None = None, already_taken: int = 0
) -> BoundQuery:
    values: QueryValues = {
        "limit": request.limit if limit is None else limit,
        "token": request.token,
        "had": already_taken,
        "worker": request.worker,
        "lease": microseconds(request.lease),
    }
    return bound_table.build_query("claim", "take", values)
