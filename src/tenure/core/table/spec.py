"""A table of the user's own, as it is described: which column plays which role, and which word means which state.

Nothing here has seen the table. Whether its columns are there, and of which types, a store finds in the catalogue.
"""

import json
from collections.abc import Mapping
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
"""Bytes that PostgreSQL keeps of a name."""

StateValue = str | int
"""What stands in the column of the state: a text, a label of an enum, or a number."""


class Columns(TypedDict, total=False):
    """Which columns of the table play which role; those that are not named are added by `migrate`.

    `priority`, `error` and `created_at` are used only if they are named. `record` has what no other column has:
    history, progress, result.
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
    """Which word of the state column means which state; the names themselves, where it is not told."""

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
"""Roles that a table may do without."""

USER_TABLE_ROLES = frozenset({Role.PRIORITY, Role.CREATED_AT})
"""Roles that columns of the user's table play when a companion table has all others."""


@dataclass(frozen=True, slots=True)
class Order:
    """A column by which rows are claimed; in either direction, those without a value last."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class OutputLocation:
    """Where the work of a row shows: at most one row of this table has its key in these columns."""

    schema: str | None
    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A table as the user described it: checked as far as that goes without looking at it.

    `columns` are those that the user named. `done_if` is a condition in SQL; one that is a function is not for a store.
    `lease` and `backoff` are for those who do not tell their own.
    """

    name: str
    schema: str | None = None
    key: tuple[str, ...] = ("id",)
    columns: Mapping[Role, str] = field(default_factory=dict, hash=False)
    state_values: Mapping[State, StateValue] = field(
        default_factory=lambda: {each: each.value for each in State}, hash=False
    )
    order_by: tuple[Order, ...] = ()
    where: SqlCondition | None = None
    done_if: SqlCondition | None = None
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    on_retry: Mapping[str, Any] = field(default_factory=dict, hash=False)
    output: OutputLocation | None = None
    companion: str | None = None
    max_attempts: int | None = 5
    max_crashes: int = 3
    lease: float = 60.0
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def label(self) -> str:
        """The queue and the type that its jobs are shown under."""
        return self.name

    @property
    def display_name(self) -> str:
        """The table as an error names it."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def is_sidecar(self) -> bool:
        """Whether the user's table is left as it is, and a companion table has what there is to note."""
        return self.companion is not None

    def column(self, role: Role) -> str | None:
        """Return the name of the column that plays a role; None if nothing plays it.

        In a companion all roles have their own names but for those that stay with the user's table.
        """
        if (column := self.columns.get(role)) is not None:
            return column
        if role is Role.ERROR and self.is_sidecar:
            return role.value
        if role in OPTIONAL_ROLES:
            return None
        return role.value if self.is_sidecar or role is Role.STATE else f"tenure_{role}"


def row_id(key: object, columns: int) -> str:
    """Return the id of the row that has this key, or raise; a text is taken for the id itself.

    The id of one column is its text, that of several a JSON list of their texts, without spaces.
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
    """Return a name for what is made beside a table, such as an index: whole if it fits, else with a digest."""
    whole = "_".join(parts)
    if len(whole.encode()) <= LONGEST_IDENTIFIER:
        return whole
    digest = blake2b(whole.encode(), digest_size=5).hexdigest()
    return whole.encode()[: LONGEST_IDENTIFIER - len(digest) - 1].decode(errors="ignore") + f"_{digest}"


def quote_identifier(name: str) -> str:
    """Return a name as it stands in a statement."""
    return '"' + name.replace('"', '""') + '"'
