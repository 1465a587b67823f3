"""The layout of a table: the column of each role, and its format, from the description and the catalogue.

Only this module and `sql_templates` distinguish a mapped table from a table with a sidecar. The **home** is the table
with the role columns: the user's table, or the sidecar table. The SQL templates call the home `{home}`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tenure.backends.tables.protocol import Finding, Severity
from tenure.backends.tables.sqlite.catalogue import SQLiteColumn, SQLiteRelation, fold_name
from tenure.backends.tables.sqlite.keys import Keys, KeyValues
from tenure.backends.tables.sqlite.storage_formats import encode_now, encode_timestamp, encode_value, timestamp_format
from tenure.core.job import State
from tenure.core.table.spec import USER_TABLE_ROLES, Order, Role, TableSpec, quote_identifier


@dataclass(frozen=True, slots=True)
class SortTerm:
    """A sort expression: a column of the user's table, or `column is null`."""

    column: str
    is_descending: bool = False
    is_null_test: bool = False

    def expression(self, table: str = "") -> str:
        column = f"{table}.{quote_identifier(self.column)}" if table else quote_identifier(self.column)
        return f"({column} is null)" if self.is_null_test else column

    def sort_item(self, table: str = "", *, is_reversed: bool = False) -> str:
        return f"{self.expression(table)} desc" if self.is_descending != is_reversed else self.expression(table)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A table as found in the file. The findings contain the errors that prevent claims."""

    spec: TableSpec
    table: SQLiteRelation
    sidecar: SQLiteRelation | None
    keys: Keys
    findings: tuple[Finding, ...]
    schema_version: int
    statements: dict[str, str] = field(default_factory=dict)
    """Cache of filled SQL templates."""

    @property
    def errors(self) -> list[Finding]:
        return [each for each in self.findings if each.severity is Severity.ERROR]

    @property
    def home(self) -> SQLiteRelation | None:
        """The table with the role columns; None if the sidecar table does not exist yet."""
        return self.sidecar if self.spec.is_sidecar else self.table

    @cached_property
    def user_columns(self) -> list[SQLiteColumn]:
        """The columns of a row as the user sees it: the selected ones, or all except the columns that tenure added."""
        if self.spec.select is not None:
            selected = {fold_name(name) for name in (*self.spec.select, *self.spec.key)}
            return [each for each in self.table.columns if fold_name(each.name) in selected]
        if self.spec.is_sidecar:
            return list(self.table.columns)
        added = {fold_name(str(self.spec.column(role))) for role in Role if role not in self.spec.columns} - {"state"}
        return [each for each in self.table.columns if fold_name(each.name) not in added]

    def column(self, role: Role) -> SQLiteColumn | None:
        """Return the column of a role, or None if it does not exist."""
        name = self.spec.column(role)
        relation = self.table if role in USER_TABLE_ROLES else self.home
        return None if name is None or relation is None else relation.column(name)

    def state_literal(self, state: State) -> str:
        """Return the value of a state as a literal: a parameter would not match partial indexes."""
        return quote_literal(self.spec.state_values[state])

    @cached_property
    def states(self) -> dict[Any, State]:
        """The states by column value. The affinity of the column may turn a number into text, or text into a number."""
        words = {word: state for state, word in self.spec.state_values.items()}
        texts = {str(word): state for word, state in words.items()}
        numbers = {int(text): state for text, state in texts.items() if re.fullmatch("-?[0-9]+", text)}
        column = self.column(Role.STATE)
        converted = {} if column is None else texts if column.affinity == "text" else numbers
        return {**converted, **words}

    def encode_timestamp(self, role: Role, at: int | None) -> str | int | float | None:
        """Convert a timestamp to the format of a role's column."""
        return encode_timestamp(timestamp_format(self.column(role)), role, at)

    def encode_now(self, now: int) -> str | int | float:
        """Return the current time for comparison with leases."""
        return encode_now(timestamp_format(self.column(Role.LEASED_UNTIL)), now)

    @cached_property
    def order(self) -> list[SortTerm]:
        """The order of `find`. The key comes last, so no two rows have the same position."""
        created_at = self.spec.columns.get(Role.CREATED_AT)
        by = self.spec.order_by or (() if created_at is None else (Order(created_at),))
        named = {fold_name(each.column) for each in by}
        rest = [Order(name) for name in self.spec.key if fold_name(name) not in named]
        return [term for each in (*by, *rest) for term in self._sort_columns(each)]

    @cached_property
    def claim_order(self) -> list[SortTerm]:
        """The order in which rows are claimed."""
        priority = self.spec.columns.get(Role.PRIORITY)
        first = [] if priority is None else self._sort_columns(Order(priority, is_descending=True))
        return [*first, *self.order]

    @cached_property
    def params(self) -> dict[str, Any]:
        """The parameter values of the user's conditions."""
        return {f"param_{name}": encode_value(f"params[{name!r}]", value) for name, value in self.spec.params.items()}

    def values(self, key: KeyValues = (), **values: Any) -> dict[str, Any]:
        """Return the parameter values of a statement, always including those of the user's conditions."""
        return {**self.params, **{f"key_{n}": each for n, each in enumerate(key)}, **values}

    def _sort_columns(self, order: Order) -> Sequence[SortTerm]:
        column = self.table.column(order.column)
        is_in_key = fold_name(order.column) in {fold_name(name) for name in self.spec.key}
        has_nulls = not is_in_key and (column is None or not column.is_never_null)
        term = SortTerm(order.column, order.is_descending)
        return [SortTerm(order.column, is_null_test=True), term] if has_nulls else [term]


def quote_literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
