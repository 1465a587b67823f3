"""The queries of a claim, and the decoding of their results."""

from collections.abc import Sequence
from typing import Any

from tenure.backends.postgres.encoding import microseconds
from tenure.backends.postgres.pipeline import BoundQuery, QueryValues
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.keys import KeyTexts
from tenure.backends.tables.row_batches import Taken
from tenure.core.operations import ClaimRequest


def take_query(bound_table: BoundTable, request: ClaimRequest, avoided: Sequence[KeyTexts]) -> BoundQuery:
    """Return the query that claims the first due rows, except the avoided ones."""
    return bound_table.build_choice_query("claim", "take", _take_values(request), avoided=avoided)


def take_rows_query(
    bound_table: BoundTable, request: ClaimRequest, keys: Sequence[KeyTexts], already_taken: int
) -> BoundQuery:
    """Return the query that claims the due rows among the given keys."""
    values = {**_take_values(request), "limit": len(keys), "had": already_taken}
    return bound_table.build_choice_query("claim", "take", values, chosen=keys)


def read_taken(bound_table: BoundTable, request: ClaimRequest, result: Any) -> Taken[KeyTexts]:
    """Return the claimed rows; if the token held rows before, return those instead."""
    was_held, missed, rows = result
    if was_held:
        (rows,) = bound_table.execute([bound_table.build_query("claim", "held", {"token": request.token})])
    jobs = bound_table.reader().decode_jobs(rows)
    return Taken(jobs=jobs, missed=[tuple(key) for key in missed], was_held=was_held)


def _take_values(request: ClaimRequest) -> QueryValues:
    return {
        "limit": request.limit,
        "token": request.token,
        "had": 0,
        "worker": request.worker,
        "lease": microseconds(request.lease),
    }
