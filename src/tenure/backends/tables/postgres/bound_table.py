"""A user's table in a database: the layout, read on first use, and the connection."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg

from tenure.backends.postgres.database import Database, Execute
from tenure.backends.postgres.encoding import Value
from tenure.backends.postgres.errors import reason_of
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.tables.postgres.catalogue import read_catalogue
from tenure.backends.tables.postgres.column_checks import reject_unusable
from tenure.backends.tables.postgres.keys import Keys
from tenure.backends.tables.postgres.layout import Layout
from tenure.backends.tables.postgres.params import param_values
from tenure.backends.tables.postgres.rows import RowReader
from tenure.backends.tables.postgres.sql_templates import SqlTemplates
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError, TenureError

T = TypeVar("T")

STATEMENT_ERROR_CLASSES = ("42", "22", "23", "0A")
"""SQLSTATE classes for an invalid statement or value: syntax, data, constraint, unsupported feature."""
INSUFFICIENT_PRIVILEGE = "42501"


class BoundTable:
    """A table in a database. The layout is read on first use, and again after the table has changed."""

    def __init__(self, database: Database, spec: TableSpec) -> None:
        self.database = database
        self.spec = spec
        self._params = param_values(spec)
        self._templates: SqlTemplates | None = None

    def read_layout(self) -> Layout:
        """Read the layout from the catalogue, without checking it."""
        return Layout(spec=self.spec, catalogue=read_catalogue(self.database, self.spec))

    @property
    def templates(self) -> SqlTemplates:
        """The statements on the table. Raise if the table is not usable."""
        if self._templates is None:
            layout = self.read_layout()
            reject_unusable(layout)
            self._templates = SqlTemplates(layout)
        return self._templates

    @property
    def layout(self) -> Layout:
        return self.templates.layout

    @property
    def keys(self) -> Keys:
        return Keys(self.layout.key)

    def reader(self) -> RowReader:
        return RowReader(self.layout)

    def invalidate(self) -> None:
        """Read the layout again on next use."""
        self._templates = None

    def build_query(
        self, operation: str, name: str, values: Mapping[str, Value], extra_fragments: Mapping[str, str] | None = None
    ) -> BoundQuery:
        """Return a statement with its values; add the values of the conditions and the current time."""
        statement = self.templates.statement(operation, name, extra_fragments)
        given = {**self._params, "now": self.database.now(), **values}
        return BoundQuery(statement, {each: given[each] for each in statement.names})

    def execute(self, queries: Sequence[BoundQuery], *, may_repeat: bool = True) -> list[Any]:
        """Run the queries in one transaction and one round trip; return their results in order."""
        return self._translate_errors(lambda: self.database.execute(queries, may_repeat=may_repeat))

    def transact(self, callback: Callable[[Execute], T]) -> T:
        """Run a function in one transaction; do not repeat the transaction if the connection breaks."""
        return self._translate_errors(lambda: self.database.transact(callback, may_repeat=False))

    def _translate_errors(self, action: Callable[[], T]) -> T:
        """Translate server errors caused by a condition or a column to ConfigurationError."""
        try:
            return action()
        except TenureError as exc:
            cause = exc.__cause__
            if not isinstance(cause, psycopg.Error) or not _is_statement_error(cause.sqlstate):
                raise
            # The table may have changed since its layout was read.
            self.invalidate()
            reason = reason_of(cause)
            raise ConfigurationError(
                f"{self.spec.display_name}: the server rejected a statement: {reason}; check where, done_if, params "
                "and on_retry, and run `tenure doctor`"
            ) from cause


def _is_statement_error(code: str | None) -> bool:
    return code is not None and code != INSUFFICIENT_PRIVILEGE and code.startswith(STATEMENT_ERROR_CLASSES)
