"""Names, literals and types of a table, from its description and the catalogue.

Only this module distinguishes a mapped table from a table with a sidecar. The **home** is the table with the role
columns: the user's table, or the sidecar table. Names are always quoted; they come from the catalogue, or `migrate`
creates them.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tenure.backends.tables.postgres.catalogue import (
    FOREIGN_TABLE,
    MATERIALIZED_VIEW,
    VIEW,
    Catalogue,
    PostgresColumn,
    PostgresRelation,
)
from tenure.core import checks
from tenure.core.job import State
from tenure.core.table.spec import (
    OPTIONAL_ROLES,
    USER_TABLE_ROLES,
    Order,
    Role,
    StateValue,
    TableSpec,
    quote_identifier,
)
from tenure.errors import ConfigurationError

INTEGER_TYPES = ("smallint", "integer", "bigint")
TEXT_TYPES = ("text", "character varying")
TIMESTAMP, LOCAL_TIMESTAMP = "timestamp with time zone", "timestamp without time zone"
KEY_TYPES = {**{each: each for each in (*INTEGER_TYPES, "uuid", "text")}, "character varying": "text"}
"""The valid types of a key, and the types for comparison: without a length, which would truncate values."""

COLUMN_DEFINITIONS: Mapping[Role, str] = {
    Role.LEASED_UNTIL: "timestamptz",
    Role.WORKER: "text",
    Role.ATTEMPTS: "integer not null default 0",
    Role.CRASHES: "integer not null default 0",
    Role.FENCE: "bigint not null default 0",
    Role.TOKEN: "text",
    Role.ERROR: "text",
    Role.STARTED_AT: "timestamptz",
    Role.COMPLETED_AT: "timestamptz",
    Role.PRIORITY: "integer not null default 0",
    Role.RUN_AT: "timestamptz",
    Role.CREATED_AT: "timestamptz default now()",
    Role.RECORD: "jsonb",
}
"""The definitions of added columns by role; the definition of `state` depends on the state values."""

VALID_TYPES: Mapping[Role, tuple[str, ...]] = {
    **dict.fromkeys(
        (Role.LEASED_UNTIL, Role.STARTED_AT, Role.COMPLETED_AT, Role.RUN_AT, Role.CREATED_AT),
        (TIMESTAMP, LOCAL_TIMESTAMP),
    ),
    **dict.fromkeys((Role.WORKER, Role.TOKEN, Role.ERROR), TEXT_TYPES),
    **dict.fromkeys((Role.ATTEMPTS, Role.CRASHES, Role.PRIORITY, Role.FENCE), INTEGER_TYPES),
    Role.RECORD: ("jsonb",),
}
"""The valid column types by role; `state` has its own rules."""

NULLABLE_ROLES = frozenset({Role.LEASED_UNTIL, Role.WORKER, Role.TOKEN, Role.ERROR, Role.COMPLETED_AT, Role.RECORD})
"""The roles whose columns tenure sets to null."""

REQUIRED_LENGTHS: Mapping[Role, int] = {Role.WORKER: checks.LONGEST_NAME, Role.TOKEN: checks.LONGEST_NAME}
"""The number of characters that a column must hold, by role."""

UNSUPPORTED_KINDS = {VIEW: "a view", MATERIALIZED_VIEW: "a materialized view", FOREIGN_TABLE: "a foreign table"}

MIGRATE_REMEDY = "run `migrate()`, or:\n"
"""Prefix of the remedy of every finding that `migrate` fixes."""

RESERVED_ALIASES = ("due", "first", "found", "job", "moved")
"""Names of CTEs and subqueries next to the user's table in a statement."""

STATE_TYPO_CUTOFF, TYPO_CUTOFF = 0.7, 0.85
"""Similarity to an existing column above which a missing name is a typo, not a column to add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleColumn:
    """A role, the name of its column, and the column if it exists."""

    role: Role
    name: str
    column: PostgresColumn | None

    @property
    def is_local(self) -> bool:
        """Whether the column has timestamps without a time zone; tenure reads and writes them as UTC."""
        return self.column is not None and self.column.base == LOCAL_TIMESTAMP


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A table as statements use it."""

    spec: TableSpec
    catalogue: Catalogue

    @property
    def table(self) -> PostgresRelation:
        """The user's table."""
        return self.catalogue.table

    @property
    def home(self) -> str:
        """The quoted name of the table with the role columns."""
        return f"{quote_identifier(self.table.schema)}.{quote_identifier(self.home_name)}"

    @property
    def home_name(self) -> str:
        return self.table.name if self.spec.sidecar_name is None else self.spec.sidecar_name

    @property
    def alias(self) -> str:
        """The alias of the user's table in scope of the user's conditions."""
        return quote_identifier(self.spec.name)

    @property
    def outer_alias(self) -> str:
        """The alias of the user's table next to CTEs, out of scope of the user's conditions."""
        return self.alias if self.spec.name not in RESERVED_ALIASES else quote_identifier(f"{self.spec.name}_row")

    @property
    def sidecar_alias(self) -> str:
        """The alias of the sidecar table; different from the alias of the user's table."""
        return "sidecar" if self.spec.name != "sidecar" else "sidecar_row"

    @cached_property
    def key(self) -> tuple[PostgresColumn, ...]:
        return tuple(self.require_column("id", name) for name in self.spec.key)

    @cached_property
    def order(self) -> tuple[tuple[PostgresColumn, Order], ...]:
        """The sort columns before the key: `order_by`, or else `created_at`."""
        order_by = self.spec.order_by
        if (
            not order_by
            and (created := self.role_columns.get(Role.CREATED_AT)) is not None
            and created.column is not None
        ):
            return ((created.column, Order(created.name)),)
        if order_by == tuple(Order(name) for name in self.spec.key[: len(order_by)]):
            return ()
        return tuple((self.require_column("order_by", each.column), each) for each in order_by)

    @cached_property
    def on_retry(self) -> tuple[PostgresColumn, ...]:
        """The columns of the user's table that an operator's retry sets."""
        return tuple(self.require_column("on_retry", name) for name in self.spec.on_retry)

    @cached_property
    def role_columns(self) -> Mapping[Role, RoleColumn]:
        """The roles in use, with their columns."""
        found: dict[Role, RoleColumn] = {}
        for role in Role:
            name = self.spec.column(role)
            if name is not None:
                where = self.relation_of(role)
                column = None if where is None else where.column(name)
                if column is None and where is self.table:
                    self._reject_typo(role, name)
                    if self.spec.is_sidecar:
                        self.require_column(f"columns[{role.value!r}]", name)
                found[role] = RoleColumn(role=role, name=name, column=column)
        return found

    def relation_of(self, role: Role) -> PostgresRelation | None:
        """Return the table with the column of a role; None if this is the sidecar table and it does not exist yet."""
        is_in_sidecar = self.spec.is_sidecar and role not in USER_TABLE_ROLES
        return self.catalogue.sidecar if is_in_sidecar else self.table

    @cached_property
    def columns(self) -> tuple[PostgresColumn, ...]:
        """The columns of a row as the user sees it: the selected ones, or all except the columns that tenure added."""
        if self.spec.select is not None:
            selected = {self.require_column("select", name).name for name in self.spec.select} | set(self.spec.key)
            return tuple(each for each in self.table.columns if each.name in selected)
        if self.spec.is_sidecar:
            return self.table.columns
        added = {part.name for role, part in self.role_columns.items() if self.is_added(role)}
        return tuple(each for each in self.table.columns if each.name not in added)

    def is_added(self, role: Role) -> bool:
        """Return whether tenure added the column of this role, under a name of its own."""
        return role not in self.spec.columns and role not in OPTIONAL_ROLES and role is not Role.STATE

    @cached_property
    def state_literals(self) -> Mapping[State, str]:
        """The state values as literals of the column's type: only then does the planner match partial indexes."""
        return {state: self._state_literal(word) for state, word in self.spec.state_values.items()}

    def _state_literal(self, value: StateValue) -> str:
        column = self.role_columns[Role.STATE].column
        text = str(value) if isinstance(value, int) else quote_literal(value)
        return f"cast({text} as {self._state_type() if column is None else column.base})"

    def _state_type(self) -> str:
        return "integer" if isinstance(self.spec.state_values[State.QUEUED], int) else "text"

    def definition(self, role: Role) -> str:
        """Return the type and default of the column to add for a role."""
        if role is Role.STATE:
            word = self.spec.state_values[State.QUEUED]
            return f"{self._state_type()} not null default {word if isinstance(word, int) else quote_literal(word)}"
        return COLUMN_DEFINITIONS[role]

    @property
    def missing(self) -> list[RoleColumn]:
        """The roles whose columns are missing from an existing table."""
        return [
            part
            for part in self.role_columns.values()
            if part.column is None and self.relation_of(part.role) is not None
        ]

    def add_columns_statement(self, role_columns: Iterable[RoleColumn]) -> str:
        """Return one statement that adds the columns of all these roles: the table is locked once."""
        lines = [
            f"add column if not exists {quote_identifier(part.name)} {self.definition(part.role)}"
            for part in role_columns
        ]
        return f"alter table {self.home}\n  " + ",\n  ".join(lines)

    def create_sidecar_statement(self) -> str:
        """Return the `create table` statement of the sidecar: the key columns of the user's table, and the roles."""
        columns = [f"{quote_identifier(each.name)} {each.type}{each.collate_clause} not null" for each in self.key]
        columns += [
            f"{quote_identifier(part.name)} {self.definition(part.role)}"
            for part in self.role_columns.values()
            if part.role not in USER_TABLE_ROLES
        ]
        names = ", ".join(quote_identifier(each.name) for each in self.key)
        lines = ",\n  ".join([*columns, f"primary key ({names})"])
        return f"create table if not exists {self.home} (\n  {lines}\n)"

    def require_column(self, option: str, name: str) -> PostgresColumn:
        """Return a column of the user's table. Raise, with the option that names the column, if it does not exist."""
        column = self.table.column(name)
        if column is None:
            names = [each.name for each in self.table.columns]
            remedy = checks.did_you_mean(name, names) or f"; its columns are {', '.join(names)}"
            raise ConfigurationError(f"{option}: {self.table.display_name} has no column {name!r}{remedy}")
        return column

    def _reject_typo(self, role: Role, name: str) -> None:
        """Raise if a missing column has nearly the name of an existing one: this is probably a typo."""
        is_default = role not in self.spec.columns
        if is_default and role is not Role.STATE:
            return
        taken = {*self.spec.columns.values(), *self.spec.key}
        free = [each.name for each in self.table.columns if each.name not in taken]
        near = difflib.get_close_matches(
            name, free, n=1, cutoff=STATE_TYPO_CUTOFF if role is Role.STATE else TYPO_CUTOFF
        )
        if near:
            raise ConfigurationError(
                f"{self.table.display_name} has no column {name!r}, but {near[0]!r}; "
                f"if that column holds {role}, pass columns={{{role.value!r}: {near[0]!r}}}"
            )


def quote_literal(text: str) -> str:
    """Return a text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
