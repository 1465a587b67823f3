"""A user's table in a database: the layout, read on first use, and the connection."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

import psycopg

from tenure.backends.postgres.database import Database, Execute
from tenure.backends.postgres.encoding import Value
from tenure.backends.postgres.errors import (
    is_conflict_of_row,
    is_lock_timeout,
    is_statement_timeout,
    rejections_raised,
)
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.statements import Statement, make_statement
from tenure.backends.shared.isolation import StatementBlocked, StatementRejected, StatementTimedOut
from tenure.backends.tables.postgres.catalogue import read_catalogue
from tenure.backends.tables.postgres.column_checks import reject_unusable
from tenure.backends.tables.postgres.keys import Keys, KeyTexts
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.rows import RowReader
from tenure.backends.tables.postgres.sql_templates import SqlTemplates
from tenure.core.table.spec import TableSpec
from tenure.errors import StoreUnavailable

T = TypeVar("T")

LOCK_TIMEOUT = make_statement("set local lock_timeout = '500ms'")
"""A statement skips locked rows, but a trigger or a unique index of the table may wait for another transaction."""
SHORT_LOCK_TIMEOUT = make_statement("set local lock_timeout = '2ms'")
"""Replaces `LOCK_TIMEOUT` after a lock timeout: the batch is split down to the blocked row, and waits at each split."""
BLOCKED_FOR = 1.0
"""Seconds after a lock timeout for which the short one applies: the blocked rows are tried again soon."""


class BoundTable:
    """A table in a database. The layout is read on first use, and again after the table has changed."""

    def __init__(self, database: Database, spec: TableSpec) -> None:
        self.database = database
        self.spec = spec
        self._params = param_values(spec)
        self._templates: SqlTemplates | None = None
        self._is_current = False
        self._blocked_at = -math.inf

    def read_layout(self) -> Layout:
        """Read the layout from the catalogue, without checking it."""
        return Layout(spec=self.spec, catalogue=read_catalogue(self.database, self.spec))

    @property
    def templates(self) -> SqlTemplates:
        """The statements on the table. Raise if the table is not usable."""
        templates = self._templates
        if templates is None or not self._is_current:
            layout = self.read_layout()
            if templates is None or layout.catalogue != templates.layout.catalogue:
                reject_unusable(layout)
                templates = self._templates = SqlTemplates(layout)
            self._is_current = True
        return templates

    @property
    def layout(self) -> Layout:
        return self.templates.layout

    @property
    def keys(self) -> Keys:
        return Keys(self.layout.key)

    def reader(self) -> RowReader:
        return RowReader(self.layout)

    def invalidate(self) -> None:
        """Read the layout again on next use; build the statements again if it has changed."""
        self._is_current = False

    def build_query(
        self, operation: str, name: str, values: Mapping[str, Value], extra_fragments: Mapping[str, str] | None = None
    ) -> BoundQuery:
        """Return a statement with its values; add the values of the conditions and the current time."""
        statement = self.templates.statement(operation, name, extra_fragments)
        given = {**self._params, "now": self.database.now(), **values}
        return BoundQuery(statement, {each: given[each] for each in statement.names})

    def build_choice_query(
        self,
        operation: str,
        name: str,
        values: Mapping[str, Value],
        extra_fragments: Mapping[str, str] = MappingProxyType({}),
        *,
        avoided: Sequence[KeyTexts] = (),
        chosen: Sequence[KeyTexts] | None = None,
    ) -> BoundQuery:
        """Return a statement that skips the avoided rows, or uses only the chosen ones."""
        if chosen is None and not avoided:
            return self.build_query(operation, name, values, extra_fragments or None)
        keys, operator = (avoided, "not in") if chosen is None else (chosen, "in")
        fragments = {**extra_fragments, **self.templates.choice_fragments(operator)}
        return self.build_query(operation, name, {**values, **self.keys.values(keys, "chosen")}, fragments)

    def execute(self, queries: Sequence[BoundQuery], *, may_repeat: bool = True) -> list[Any]:
        """Run the queries in one transaction and one round trip; return their results in order."""
        return self._translate_errors(lambda: self.database.execute(queries, may_repeat=may_repeat))

    def write(
        self, queries: Sequence[BoundQuery], timeout: float, *, may_repeat: bool = True, is_for_leases: bool = False
    ) -> list[Any]:
        """Run queries that write rows. Raise `StatementBlocked` instead of waiting long for a lock.

        Raise `StatementTimedOut` if a query takes longer than the timeout.
        """
        is_blocked_now = time.monotonic() - self._blocked_at < BLOCKED_FOR
        limits = [
            BoundQuery(SHORT_LOCK_TIMEOUT if is_blocked_now else LOCK_TIMEOUT),
            BoundQuery(_statement_timeout(timeout)),
        ]
        try:
            results = self._translate_errors(
                lambda: self.database.execute([*limits, *queries], may_repeat=may_repeat, is_for_leases=is_for_leases)
            )
        except StoreUnavailable as exc:
            if not is_statement_timeout(exc):
                raise
            reason = f"the write took more than {timeout:g} s, for example because of a slow trigger"
            raise StatementTimedOut(f"a write to {self.spec.display_name}: {reason}", reason=reason) from exc.__cause__
        return results[len(limits) :]

    def transact(self, callback: Callable[[Execute], T]) -> T:
        """Run a function in one transaction; do not repeat the transaction if the connection breaks."""
        return self._translate_errors(lambda: self.database.transact(callback, may_repeat=False))

    def _translate_errors(self, action: Callable[[], T]) -> T:
        """Raise `StatementRejected` or `StatementBlocked` for errors caused by a condition, a column or a row."""
        try:
            with rejections_raised(
                "check where, done_if, params and on_retry, and the constraints and triggers of the table "
                f"{self.spec.display_name}; run `tenure doctor`"
            ):
                return action()
        except StatementRejected as exc:
            # The table may have changed since its layout was read, except its triggers and check constraints.
            if exc.is_invalid or isinstance(exc.__cause__, psycopg.DataError | psycopg.errors.NotNullViolation):
                self.invalidate()
            raise
        except StoreUnavailable as exc:
            if is_conflict_of_row(exc):
                reason = f"the write conflicts with other transactions: {exc.__cause__}"
                raise StatementBlocked(
                    f"a write to {self.spec.display_name}: {reason}", reason=reason
                ) from exc.__cause__
            if not is_lock_timeout(exc):
                raise
            self._blocked_at = time.monotonic()
            raise StatementBlocked(
                f"another transaction holds a lock that a write to {self.spec.display_name} needs; end that "
                "transaction, and retry",
                reason="another transaction holds a lock that the write needs",
            ) from exc.__cause__


@cache
def _statement_timeout(timeout: float) -> Statement:
    return make_statement(f"set local statement_timeout = '{max(1, round(1000 * timeout))}ms'")
