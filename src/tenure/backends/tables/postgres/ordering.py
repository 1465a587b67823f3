"""The order of rows: by priority, highest first, then by `order_by`, then by key.

Nulls come last; in reverse order they come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenure.backends.tables.postgres.catalogue import PostgresColumn
from tenure.backends.tables.postgres.layout import KEY_TYPES, Layout
from tenure.core.table.spec import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class SortColumn:
    """A column of the sort order. `name` is its alias in the CTEs of a statement."""

    name: str
    column: PostgresColumn
    is_descending: bool = False
    is_priority: bool = False
    is_key: bool = False

    @classmethod
    def of_key(cls, column: PostgresColumn, number: int) -> "SortColumn":
        # A row with a null key is not a job.
        return cls(name=f"key_{number}", column=replace(column, is_nullable=False), is_key=True)

    @property
    def cast_type(self) -> str:
        """The type to cast values to; without a length, which would truncate them."""
        return KEY_TYPES[self.column.base] if self.is_key else self.column.base

    def order_item(self, value: str, *, is_reverse: bool = False) -> str:
        """Return the `order by` item."""
        direction = "desc" if self.is_descending is not is_reverse else "asc"
        return f"{value} {direction} nulls {'first' if is_reverse else 'last'}"

    def is_less(self, one: str, other: str) -> str:
        """Return the condition that the first value comes before the second."""
        less = f"{one} {'>' if self.is_descending else '<'} {other}"
        return f"coalesce({less}, {one} is not null and {other} is null)" if self.column.is_nullable else less

    def is_same(self, one: str, other: str) -> str:
        return f"{one} {'is not distinct from' if self.column.is_nullable else '='} {other}"

    def is_not_greater(self, one: str, other: str) -> str:
        return f"{one} {'>=' if self.is_descending else '<='} {other}"


def sort_columns_of(layout: Layout) -> list[SortColumn]:
    """Return the sort columns of a claim, without the key."""
    found: list[SortColumn] = []
    priority = layout.role_columns.get(Role.PRIORITY)
    if priority is not None and priority.column is not None:
        found.append(SortColumn(name="sort_1", column=priority.column, is_descending=True, is_priority=True))
    for column, order in layout.order:
        found.append(SortColumn(name=f"sort_{len(found) + 1}", column=column, is_descending=order.is_descending))
    return found


def is_before(sort_columns: Sequence[SortColumn], left: Sequence[str], right: Sequence[str]) -> str:
    """Return the condition that the row with the left values comes before the row with the right values.

    If the first column is not nullable, add a separate condition on it: the planner needs it to start an index scan
    there.
    """
    alternatives: list[str] = []
    for number, (sort_column, left_value, right_value) in enumerate(zip(sort_columns, left, right, strict=True)):
        same = [each.is_same(*pair) for each, *pair in zip(sort_columns[:number], left, right, strict=False)]
        alternatives.append(" and ".join([*same, sort_column.is_less(left_value, right_value)]))
    condition = f"({' or '.join(f'({each})' for each in alternatives)})"
    if sort_columns[0].column.is_nullable:
        return condition
    return f"{sort_columns[0].is_not_greater(left[0], right[0])} and {condition}"
