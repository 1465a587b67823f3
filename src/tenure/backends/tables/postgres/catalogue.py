"""A table as the server's catalogue has it: what is there, whatever somebody wrote about it.

Read in one statement, so that all of it is of one moment.
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
"""What the catalogue calls kinds of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresColumn:
    """A column. `base` is the type as a cast names it, without a length; of a domain, the type beneath.

    `longest` is how many characters it takes, None for any number. `collation` is one that its type has not by itself.
    `labels` are those of an enum.
    """

    name: str
    type: str
    type_oid: int
    base: str
    base_oid: int
    longest: int | None
    collation: str | None
    labels: tuple[str, ...]
    is_nullable: bool
    is_generated: bool
    is_identity: bool
    default: str | None

    @property
    def collate_clause(self) -> str:
        """What gives a value the collation of the column, so that both are ordered alike, and an index leads to it."""
        return f" collate {self.collation}" if self.collation is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKey:
    """Columns that no two rows have alike: the primary key, or a unique index without a condition."""

    name: str
    columns: tuple[str, ...]
    is_primary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresRelation:
    """A table, or what stands in its place: its `kind` is as the catalogue calls it."""

    oid: int
    schema: str
    name: str
    kind: str
    owner: str
    has_heirs: bool
    """Whether other tables inherit from it, and are no partitions."""
    columns: tuple[PostgresColumn, ...]
    keys: tuple[UniqueKey, ...]
    has_row_security: bool
    forces_row_security: bool
    is_row_security_active: bool
    """Whether it holds for the role that asks."""

    @property
    def quoted_name(self) -> str:
        """Its name as it stands in a statement."""
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"

    @property
    def display_name(self) -> str:
        """Its name as an error has it."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> PostgresColumn | None:
        return next((each for each in self.columns if each.name == name), None)

    def has_key(self, columns: tuple[str, ...]) -> bool:
        """Tell whether no two rows can have the same in these columns."""
        return any(set(key.columns) <= set(columns) for key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The table, the companion beside it if there is one, and in which database they are.

    `identity` tells this table from every other, also from its copy in another database or on another server.
    """

    table: PostgresRelation
    companion: PostgresRelation | None
    database: str
    identity: str


def read_catalogue(database: Database, spec: TableSpec) -> Catalogue:
    """Return what is there, or raise if there is no such table."""
    values = {"schema": spec.schema, "table": spec.name, "companion": spec.companion}
    ((table, companion, others, (oid, name, system)),) = database.execute([BoundQuery(READ_CATALOGUE, values)])
    if table is None:
        location = f"the schema {spec.schema!r}" if spec.schema is not None else "the search path"
        raise ConfigurationError(
            f"table {spec.name!r} does not exist in {location} of {database.address.shown!r}"
            f"{checks.did_you_mean(spec.name, others or ())}"
        )
    found = _parse_relation(table)
    return Catalogue(
        table=found,
        companion=None if companion is None else _parse_relation(companion),
        database=name,
        identity=f"{found.oid} in {oid} of {system}",
    )


def _parse_relation(fields: Mapping[str, Any]) -> PostgresRelation:
    columns = tuple(
        PostgresColumn(**{**each, "labels": tuple(each["labels"] or ())}) for each in fields["columns"] or ()
    )
    keys = tuple(UniqueKey(**{**each, "columns": tuple(each["columns"])}) for each in fields["keys"] or ())
    return PostgresRelation(**{**fields, "columns": columns, "keys": keys})


READ_CATALOGUE = build_statement(raw_statements(__package__, "catalogue")["read"], is_prepared=False)
"""It is asked seldom, and by those who may have nothing prepared."""
