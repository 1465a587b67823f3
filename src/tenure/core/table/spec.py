"""The description of a user's table: the role of each column, and the value of each state.

This module does not access the database. The store checks names and types of the columns against the catalogue.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any, TypedDict
from uuid import UUID

from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.job import State
from tenure.core.table.condition import SqlCondition
from tenure.errors import ConfigurationError

LONGEST_IDENTIFIER = 63
"""Bytes. PostgreSQL truncates longer names."""

StateValue = str | int
"""A value of the state column: a text, an enum label, or a number."""


class Columns(TypedDict, total=False):
    """The column of each role. `migrate` adds a column for each role that is not named here.

    `priority`, `error` and `created_at` are optional: without a name they are not used. `record` holds the rest as
    JSON: history, progress, result.
    """

    state: str
    leased_until: str
    worker: str
    attempts: str
    crashes: str
    fence: str
    token: str
    error: str
    started_at: str
    completed_at: str
    priority: str
    run_at: str
    created_at: str
    record: str


class StateWords(TypedDict, total=False):
    """The value of each state in the state column; by default the name of the state."""

    queued: StateValue
    running: StateValue
    completed: StateValue
    failed: StateValue
    cancelled: StateValue


class Role(StrEnum):
    STATE = "state"
    LEASED_UNTIL = "leased_until"
    WORKER = "worker"
    ATTEMPTS = "attempts"
    CRASHES = "crashes"
    FENCE = "fence"
    TOKEN = "token"  # noqa: S105
    ERROR = "error"
    STARTED_AT = "started_at"
    COMPLETED_AT = "completed_at"
    PRIORITY = "priority"
    RUN_AT = "run_at"
    CREATED_AT = "created_at"
    RECORD = "record"


OPTIONAL_ROLES = frozenset({Role.ERROR, Role.PRIORITY, Role.CREATED_AT})
"""Roles without a default column: unused unless the user names a column."""

USER_TABLE_ROLES = frozenset({Role.PRIORITY, Role.CREATED_AT})
"""Roles of columns that stay in the user's table when a sidecar table holds all others."""


@dataclass(frozen=True, slots=True)
class Order:
    """A column that orders claims. Nulls come last in both directions."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class OutputLocation:
    """The output of a row's work: the row of this table that has the key in these columns; there is at most one."""

    schema: str | None
    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The user's description of a table, checked as far as possible without access to the database.

    `columns` are the columns that the user named for a role. `select` are the columns that a row contains, beside the
    key; None means all. `done_if` is an SQL condition; a Python function as `done_if` does
    not reach the store. `lease` and `backoff` are defaults.
    """

    name: str
    schema: str | None = None
    key: tuple[str, ...] = ("id",)
    columns: Mapping[Role, str] = field(default_factory=dict, hash=False)
    select: tuple[str, ...] | None = None
    state_values: Mapping[State, StateValue] = field(
        default_factory=lambda: {each: each.value for each in State}, hash=False
    )
    order_by: tuple[Order, ...] = ()
    where: SqlCondition | None = None
    done_if: SqlCondition | None = None
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    on_retry: Mapping[str, Any] = field(default_factory=dict, hash=False)
    output: OutputLocation | None = None
    sidecar_name: str | None = None
    max_attempts: int | None = 5
    max_crashes: int = 3
    lease: float = 60.0
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def label(self) -> str:
        """The queue and the type of the table's jobs."""
        return self.name

    def is_included(self, queues: Sequence[str] | None, types: Sequence[str] | None) -> bool:
        """Return whether the queues and types include the table; None means all."""
        return all(names is None or self.label in names for names in (queues, types))

    @property
    def display_name(self) -> str:
        """The name of the table in error messages."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def is_sidecar(self) -> bool:
        """Whether a sidecar table holds the state of the rows, so that the user's table stays unchanged."""
        return self.sidecar_name is not None

    def column(self, role: Role) -> str | None:
        """Return the name of the column of a role, or None if no column has the role.

        In a sidecar table, a column has the name of its role; `priority` and `created_at` stay in the user's table.
        """
        if (column := self.columns.get(role)) is not None:
            return column
        if role is Role.ERROR and self.is_sidecar:
            return role.value
        if role in OPTIONAL_ROLES:
            return None
        return role.value if self.is_sidecar or role is Role.STATE else f"tenure_{role}"


def row_id(key: object, columns: int) -> str:
    """Return the id of the row with this key. A string is already an id.

    The id of a key of one column is its text; the id of a key of several columns is a JSON list of their texts,
    without spaces.
    """
    if isinstance(key, str):
        return checks.storable_text("id", key)
    if columns == 1:
        return _key_text(key)
    if not isinstance(key, tuple | list) or len(key) != columns:
        raise ConfigurationError(
            f"id must be the {columns} values of the key, such as (1, 2), not {checks.short_repr(key)}"
        )
    return json.dumps([_key_text(each) for each in key], ensure_ascii=False, separators=(",", ":"))


def _key_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        raise ConfigurationError(
            f"id must be the key of a row, a text, a number or a UUID, not {checks.short_repr(value)}"
        )
    return checks.storable_text("id", str(value))


def derive_name(*parts: str) -> str:
    """Derive the name of an index or other object of a table. A name that is too long is cut and gets a digest."""
    whole = "_".join(parts)
    if len(whole.encode()) <= LONGEST_IDENTIFIER:
        return whole
    digest = blake2b(whole.encode(), digest_size=5).hexdigest()
    return whole.encode()[: LONGEST_IDENTIFIER - len(digest) - 1].decode(errors="ignore") + f"_{digest}"


def quote_identifier(name: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'
