"""Read the user's table and its sidecar table from the server's catalogue.

One statement reads everything, so the result is consistent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.shared.sql_files import raw_statements
from tenure.backends.tables.postgres.statements import build_statement
from tenure.core import checks
from tenure.core.table.spec import TableSpec, quote_identifier
from tenure.errors import ConfigurationError

TABLE, PARTITIONED, VIEW, MATERIALIZED_VIEW, FOREIGN_TABLE = "r", "p", "v", "m", "f"
"""Values of `pg_class.relkind`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresColumn:
    """A column. `base` is the type as written in a cast, without a length; for a domain, the underlying type.

    `longest` is the maximum number of characters, None if unlimited. `precision` is the number of decimal places of a
    timestamp, None if not limited. `collation` is set only if the column does not use
    the default collation of the type. `labels` are the labels of an enum.
    """

    name: str
    type: str
    type_oid: int
    base: str
    base_oid: int
    longest: int | None
    precision: int | None
    collation: str | None
    labels: tuple[str, ...]
    is_nullable: bool
    may_reference: bool
    """Whether the current role may name the column in a foreign key."""
    is_generated: bool
    is_identity: bool
    default: str | None

    @property
    def collate_clause(self) -> str:
        """The `collate` clause for a value compared with the column: with another collation no index applies."""
        return f" collate {self.collation}" if self.collation is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKey:
    """Columns with unique values: the primary key, or a unique index without a condition."""

    name: str
    columns: tuple[str, ...]
    is_primary: bool
    is_deferrable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """A foreign key; `columns` are pairs of a column and the referenced column."""

    name: str
    referenced_oid: int
    columns: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresRelation:
    """A table, view or foreign table; `kind` is its `relkind`."""

    oid: int
    schema: str
    name: str
    kind: str
    owner: str
    is_owned: bool
    """Whether the current role has the rights of the owner."""
    owner_may_lock: bool
    """Whether the owner may read and lock rows; the server checks foreign keys with the rights of the owner."""
    is_unlogged: bool
    has_heirs: bool
    """Whether tables inherit from this table; partitions do not count."""
    columns: tuple[PostgresColumn, ...]
    keys: tuple[UniqueKey, ...]
    foreign_keys: tuple[ForeignKey, ...]
    has_row_security: bool
    forces_row_security: bool
    is_row_security_active: bool
    """Whether row-level security applies to the current role."""

    @property
    def quoted_name(self) -> str:
        """The quoted name with schema, for SQL."""
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"

    @property
    def display_name(self) -> str:
        """The name with schema, for messages."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> PostgresColumn | None:
        return next((each for each in self.columns if each.name == name), None)

    def has_key(self, columns: tuple[str, ...]) -> bool:
        """Return whether a unique key guarantees that two rows differ in these columns."""
        return any(set(key.columns) <= set(columns) for key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The user's table, its sidecar table if there is one, the database, and the current role.

    `identity` is unique to the table: a copy in another database or on another server has another identity.
    """

    table: PostgresRelation
    sidecar: PostgresRelation | None
    database: str
    identity: str
    role: str


def read_catalogue(database: Database, spec: TableSpec) -> Catalogue:
    """Return the catalogue entries of the table. Raise if the table does not exist."""
    values = {"schema": spec.schema, "table": spec.name, "companion": spec.sidecar_name}
    ((table, sidecar, others, (oid, name, system, role)),) = database.execute(
        # An extension may read the catalogue first.
        [BoundQuery(READ_CATALOGUE, values)],
        is_for_leases=True,
    )
    if table is None:
        location = f"the schema {spec.schema!r}" if spec.schema is not None else "the search path"
        raise ConfigurationError(
            f"table {spec.name!r} does not exist in {location} of {database.address.shown!r}"
            f"{checks.did_you_mean(spec.name, others or ())}"
        )
    found = _parse_relation(table)
    return Catalogue(
        table=found,
        sidecar=None if sidecar is None else _parse_relation(sidecar),
        database=name,
        identity=f"{found.oid} in {oid} of {system}",
        role=role,
    )


def _parse_relation(fields: Mapping[str, Any]) -> PostgresRelation:
    columns = tuple(
        PostgresColumn(**{**each, "labels": tuple(each["labels"] or ())}) for each in fields["columns"] or ()
    )
    keys = tuple(UniqueKey(**{**each, "columns": tuple(each["columns"])}) for each in fields["keys"] or ())
    foreign_keys = tuple(
        ForeignKey(**{**each, "columns": frozenset((own, to) for own, to in each["columns"])})
        for each in fields["foreign_keys"] or ()
    )
    return PostgresRelation(**{**fields, "columns": columns, "keys": keys, "foreign_keys": foreign_keys})


READ_CATALOGUE = build_statement(raw_statements(__package__, "catalogue")["read"], is_prepared=False)
"""Not prepared: this query is rare, and a transaction pooler may not support prepared statements."""
