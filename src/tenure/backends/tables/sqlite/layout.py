"""What a table's description and its catalogue give together: which column plays which role, and in which form.

This is the one place that knows a table whose columns play the roles from one with a companion. The table that is
*kept* has the roles: the user's own, or the companion.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tenure.backends.tables.protocol import Finding, Gravity
from tenure.backends.tables.sqlite.catalogue import Column, Thing, folded
from tenure.backends.tables.sqlite.keys import Key, Keys
from tenure.backends.tables.sqlite.storage_formats import moment_form, reached, value_of, written_moment
from tenure.core.job import State
from tenure.core.table.spec import READ_BESIDE, Order, Role, TableSpec, quoted


@dataclass(frozen=True, slots=True)
class Term:
    """What rows are sorted by: a column of the user's, or whether that has no value."""

    column: str
    is_descending: bool = False
    tells_nulls: bool = False

    def text(self, table: str = "") -> str:
        place = f"{table}.{quoted(self.column)}" if table else quoted(self.column)
        return f"({place} is null)" if self.tells_nulls else place

    def sorted(self, table: str = "", *, is_reversed: bool = False) -> str:
        return f"{self.text(table)} desc" if self.is_descending != is_reversed else self.text(table)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A table as it is. What keeps it from being used is among the findings."""

    spec: TableSpec
    table: Thing
    companion: Thing | None
    keys: Keys
    findings: tuple[Finding, ...]
    schema_version: int
    texts: dict[str, str] = field(default_factory=dict)
    """Statements that were made for it."""

    @property
    def faults(self) -> list[Finding]:
        return [each for each in self.findings if each.gravity is Gravity.ERROR]

    @property
    def kept(self) -> Thing | None:
        """The table that has the roles; None if it is not there yet."""
        return self.companion if self.spec.is_sidecar else self.table

    @cached_property
    def visible(self) -> list[Column]:
        """The user's own columns: all but those that tenure added."""
        if self.spec.is_sidecar:
            return list(self.table.columns)
        added = {folded(str(self.spec.column(role))) for role in Role if role not in self.spec.columns} - {"state"}
        return [each for each in self.table.columns if folded(each.name) not in added]

    def column(self, role: Role) -> Column | None:
        """Return the column that plays a role, if it is there."""
        name = self.spec.column(role)
        place = self.table if role in READ_BESIDE else self.kept
        return None if name is None or place is None else place.column(name)

    def word(self, state: State) -> str:
        """Return the word for a state as a literal, so that partial indexes match."""
        return literal(self.spec.words[state])

    @cached_property
    def states(self) -> dict[Any, State]:
        """The states by what is read from the column: a number may stand there as text, and the reverse."""
        words = {word: state for state, word in self.spec.words.items()}
        texts = {str(word): state for word, state in words.items()}
        numbers = {int(text): state for text, state in texts.items() if re.fullmatch("-?[0-9]+", text)}
        column = self.column(Role.STATE)
        beside = {} if column is None else texts if column.affinity == "text" else numbers
        return {**beside, **words}

    def moment(self, role: Role, at: int | None) -> str | int | float | None:
        """Return a moment as the column of a role keeps it."""
        return written_moment(moment_form(self.column(role)), role, at)

    def reached(self, now: int) -> str | int | float:
        """Return the present moment, to be compared with leases."""
        return reached(moment_form(self.column(Role.LEASED_UNTIL)), now)

    @cached_property
    def order(self) -> list[Term]:
        """The order in which rows are shown; it ends with the key, so no two rows have the same place."""
        created_at = self.spec.columns.get(Role.CREATED_AT)
        by = self.spec.order_by or (() if created_at is None else (Order(created_at),))
        named = {folded(each.column) for each in by}
        rest = [Order(name) for name in self.spec.key if folded(name) not in named]
        return [term for each in (*by, *rest) for term in self._terms(each)]

    @cached_property
    def claim_order(self) -> list[Term]:
        """The order in which rows are claimed."""
        priority = self.spec.columns.get(Role.PRIORITY)
        first = [] if priority is None else self._terms(Order(priority, is_descending=True))
        return [*first, *self.order]

    @cached_property
    def params(self) -> dict[str, Any]:
        """The values that the user's conditions name."""
        return {f"param_{name}": value_of(f"params[{name!r}]", value) for name, value in self.spec.params.items()}

    def values(self, key: Key = (), **values: Any) -> dict[str, Any]:
        """Return the values of a statement; those of the user's conditions are always among them."""
        return {**self.params, **{f"key_{n}": each for n, each in enumerate(key)}, **values}

    def _terms(self, order: Order) -> Sequence[Term]:
        column = self.table.column(order.column)
        is_in_key = folded(order.column) in {folded(name) for name in self.spec.key}
        has_nulls = not is_in_key and (column is None or not column.is_never_null)
        term = Term(order.column, order.is_descending)
        return [Term(order.column, tells_nulls=True), term] if has_nulls else [term]


def literal(word: str | int) -> str:
    return str(word) if isinstance(word, int) else "'" + word.replace("'", "''") + "'"
