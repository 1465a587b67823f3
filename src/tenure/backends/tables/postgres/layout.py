"""What the description of a table and the catalogue give together: names, literals and types.

The one place that knows a mapped table from one with a companion: the statements name its fragments. The **home** is
the table that has the roles: the user's own, or the companion. A name is always quoted, and was found in the catalogue
or is one that `migrate` makes.
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
"""Of which types a key can be, and as which its values are compared: without a length, which would cut them."""

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
"""How a column is added that plays a role; that of the state depends on its words."""

VALID_TYPES: Mapping[Role, tuple[str, ...]] = {
    **dict.fromkeys(
        (Role.LEASED_UNTIL, Role.STARTED_AT, Role.COMPLETED_AT, Role.RUN_AT, Role.CREATED_AT),
        (TIMESTAMP, LOCAL_TIMESTAMP),
    ),
    **dict.fromkeys((Role.WORKER, Role.TOKEN, Role.ERROR), TEXT_TYPES),
    **dict.fromkeys((Role.ATTEMPTS, Role.CRASHES, Role.PRIORITY, Role.FENCE), INTEGER_TYPES),
    Role.RECORD: ("jsonb",),
}
"""Of which types a column has to be to play a role; the state has more."""

NULLABLE_ROLES = frozenset({Role.LEASED_UNTIL, Role.WORKER, Role.TOKEN, Role.ERROR, Role.COMPLETED_AT, Role.RECORD})
"""The roles whose columns are emptied at times."""

REQUIRED_LENGTHS: Mapping[Role, int] = {Role.WORKER: checks.LONGEST_NAME, Role.TOKEN: checks.LONGEST_NAME}
"""How many characters must fit."""

UNSUPPORTED_KINDS = {VIEW: "a view", MATERIALIZED_VIEW: "a materialized view", FOREIGN_TABLE: "a foreign table"}

MIGRATE_REMEDY = "run `migrate()`, or:\n"
"""How the remedy of a finding begins that `migrate` sees to."""

RESERVED_ALIASES = ("due", "first", "found", "job", "moved")
"""What parts of statements are called that stand beside the user's table."""

STATE_TYPO_CUTOFF, TYPO_CUTOFF = 0.7, 0.85
"""How alike a name has to be to one that is there, to be taken for a slip and not for a column to be added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleColumn:
    """A role, the name of its column in the home or beside, and the column if it is there."""

    role: Role
    name: str
    column: PostgresColumn | None

    @property
    def is_local(self) -> bool:
        """Whether it has moments without a time zone, which are read and written as UTC."""
        return self.column is not None and self.column.base == LOCAL_TIMESTAMP


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A table as statements use it; `findings` are about its columns, and those that are errors keep it from use."""

    spec: TableSpec
    catalogue: Catalogue

    @property
    def table(self) -> PostgresRelation:
        """The user's table."""
        return self.catalogue.table

    @property
    def home(self) -> str:
        """The table that has the roles, as it stands in a statement."""
        return f"{quote_identifier(self.table.schema)}.{quote_identifier(self.home_name)}"

    @property
    def home_name(self) -> str:
        return self.table.name if self.spec.companion is None else self.spec.companion

    @property
    def alias(self) -> str:
        """What the user's table is called wherever a condition of the user's stands."""
        return quote_identifier(self.spec.name)

    @property
    def outer_alias(self) -> str:
        """What it is called beside parts of a statement, where no condition of the user's stands."""
        return self.alias if self.spec.name not in RESERVED_ALIASES else quote_identifier(f"{self.spec.name}_row")

    @property
    def sidecar_alias(self) -> str:
        """What another table is called there: nothing that the user's is called."""
        return "ours" if self.spec.name != "ours" else "theirs"

    @cached_property
    def key(self) -> tuple[PostgresColumn, ...]:
        return tuple(self.require_column("id", name) for name in self.spec.key)

    @cached_property
    def order(self) -> tuple[tuple[PostgresColumn, Order], ...]:
        """By what rows are ordered before their key: what the user said, or else when they were made."""
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
        """What an operator's retry sets in the user's table."""
        return tuple(self.require_column("on_retry", name) for name in self.spec.on_retry)

    @cached_property
    def role_columns(self) -> Mapping[Role, RoleColumn]:
        """By each role that is played, what plays it."""
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
        """Return the table whose column plays a role; None if that is the companion, and there is none yet."""
        is_beside = self.spec.is_sidecar and role not in USER_TABLE_ROLES
        return self.catalogue.companion if is_beside else self.table

    @cached_property
    def columns(self) -> tuple[PostgresColumn, ...]:
        """The user's columns, that a row is shown by: all but those that are ours."""
        if self.spec.is_sidecar:
            return self.table.columns
        ours = {part.name for role, part in self.role_columns.items() if self.is_added(role)}
        return tuple(each for each in self.table.columns if each.name not in ours)

    def is_added(self, role: Role) -> bool:
        """Tell whether a column plays this role that the user did not name, and that bears a name of ours."""
        return role not in self.spec.columns and role not in OPTIONAL_ROLES and role is not Role.STATE

    @cached_property
    def state_literals(self) -> Mapping[State, str]:
        """The words for the states as literals of the column's type, so that they match the condition of an index."""
        return {state: self._state_literal(word) for state, word in self.spec.state_values.items()}

    def _state_literal(self, value: StateValue) -> str:
        column = self.role_columns[Role.STATE].column
        text = str(value) if isinstance(value, int) else quote_literal(value)
        return f"cast({text} as {self._state_type() if column is None else column.base})"

    def _state_type(self) -> str:
        return "integer" if isinstance(self.spec.state_values[State.QUEUED], int) else "text"

    def definition(self, role: Role) -> str:
        """Return the type of a column that is added to play a role, with its default."""
        if role is Role.STATE:
            word = self.spec.state_values[State.QUEUED]
            return f"{self._state_type()} not null default {word if isinstance(word, int) else quote_literal(word)}"
        return COLUMN_DEFINITIONS[role]

    @property
    def missing(self) -> list[RoleColumn]:
        """The roles whose columns are not there; not those of a companion that is not there at all."""
        return [
            part
            for part in self.role_columns.values()
            if part.column is None and self.relation_of(part.role) is not None
        ]

    def add_columns_statement(self, role_columns: Iterable[RoleColumn]) -> str:
        """Return one statement that adds the columns of these roles: the table is locked once."""
        lines = [
            f"add column if not exists {quote_identifier(part.name)} {self.definition(part.role)}"
            for part in role_columns
        ]
        return f"alter table {self.home}\n  " + ",\n  ".join(lines)

    def create_sidecar_statement(self) -> str:
        """Return the statement that makes the companion: the key, as the user's table has it, and the roles."""
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
        """Return a column of the user's table by the option that names it, or raise."""
        column = self.table.column(name)
        if column is None:
            names = [each.name for each in self.table.columns]
            remedy = checks.did_you_mean(name, names) or f"; its columns are {', '.join(names)}"
            raise ConfigurationError(f"{option}: {self.table.display_name} has no column {name!r}{remedy}")
        return column

    def _reject_typo(self, role: Role, name: str) -> None:
        """Raise if a column is not there whose name is very near to one that is: that may be meant."""
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
    """Return a text as it stands in a statement."""
    return "'" + text.replace("'", "''") + "'"
