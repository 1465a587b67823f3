"""Run operations in the caller's transaction, with the same statements as the store.

The caller's role needs no rights beyond the ones that these statements need.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.settle import (
    SETTLED,
    extensions_json,
    merge_results,
    settlements_json,
    split_by_row,
)
from tenure.backends.tables.postgres.sql_templates import WAITING_FRAGMENTS
from tenure.connections.caller import CallerConnection
from tenure.core.job import JobRecord
from tenure.core.operations import Enqueued, Extension, HoldStatus, Settled, Settlement
from tenure.core.table.condition import tokenize
from tenure.errors import ConfigurationError

READ_COMMITTED = "read committed"
"""The isolation level at which each statement sees the commits of other transactions."""


@contextmanager
def join_transaction(bound_table: BoundTable, connection: object) -> Iterator["PostgresTableTransactionOperations"]:
    """Yield the operations for the transaction on the caller's connection."""
    missing = f"the database of this connection has no table {bound_table.spec.display_name!r}"
    with bound_table.database.caller_connection(connection, missing) as caller:
        yield PostgresTableTransactionOperations(bound_table, connection, caller)


class PostgresTableTransactionOperations:
    """The operations in one transaction of the caller."""

    def __init__(self, bound_table: BoundTable, connection: object, caller: CallerConnection) -> None:
        self._bound_table = bound_table
        self._connection = connection
        self._caller = caller
        self._seems_open: Callable[[], bool] = lambda: False
        self._transaction_id: str | None = None

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:  # noqa: ARG002
        raise ConfigurationError(
            f"cannot enqueue into the table {self._bound_table.spec.display_name}: insert rows into the table instead"
        )

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        batches = list(split_by_row(self._bound_table, extensions))
        results = [self._call("extend", extensions_json(self._bound_table, each, self._identity)) for each in batches]
        return [HoldStatus(each) for each in merge_results(batches, results, len(extensions))]

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        batches = list(split_by_row(self._bound_table, settlements))
        results = [self._call("settle", settlements_json(self._bound_table, each, self._identity)) for each in batches]
        return [SETTLED[each] for each in merge_results(batches, results, len(settlements))]

    @property
    def _identity(self) -> str:
        return self._bound_table.layout.catalogue.identity

    def is_open(self) -> bool:
        # Most drivers cannot distinguish the transaction from the next one on the same connection; the server can.
        return (
            self._transaction_id is not None
            and self._seems_open()
            and self._bound_table.database.is_transaction_open(self._transaction_id)
        )

    def belongs_to(self, connection: object) -> bool:
        return connection == self._connection

    def _call(self, operation: str, request: str) -> Any:
        text = self._bound_table.templates.text(operation, operation, WAITING_FRAGMENTS)
        response = self._caller.execute(escape_colons(text), request)
        if response is None:
            self._bound_table.invalidate()
            raise ConfigurationError(
                f"this connection reaches a different table {self._bound_table.spec.display_name!r} than "
                f"{self._bound_table.database.address.shown!r}; pass a connection to the database of the table, "
                "since a transaction cannot span databases"
            )
        found = json.loads(response)
        self._transaction_id, isolation, results = found
        self._reject_stale_snapshot(isolation, results)
        self._seems_open = self._caller.transaction_check()
        return found

    def _reject_stale_snapshot(self, isolation: str, results: Sequence[object]) -> None:
        """Raise if a claim seems lost only because the transaction's snapshot may be older than the claim."""
        if isolation != READ_COMMITTED and HoldStatus.LOST.value in results:
            raise ConfigurationError(
                f"cannot check whether a claim is lost: the transaction of this connection is {isolation}, and its "
                "snapshot may be older than the claim; use a read committed transaction"
            )


def escape_colons(text: str) -> str:
    """Escape colons within quotes: some drivers would read them as placeholders."""
    return "".join(_escape_colon(each.text) if each.kind == "quoted" else each.text for each in tokenize(text))


def _escape_colon(quoted: str) -> str:
    if ":" not in quoted or quoted.startswith("$"):
        return quoted
    return "U&" + quoted.replace("\\", "\\\\").replace(":", "\\003A")
