"""Read a table from the catalogue of a file: kind, columns with declared types, indexes.

Names are compared as SQLite compares them, ignoring case.
"""

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tenure.backends.shared.sql_files import statements
from tenure.core import checks
from tenure.core.table.spec import TableSpec
from tenure.errors import ConfigurationError

CATALOGUE_STATEMENTS = statements(__package__, "catalogue")

GENERATED_KINDS = frozenset({2, 3})


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLiteColumn:
    """A column as declared."""

    name: str
    type: str
    is_required: bool
    default: str | None
    key_position: int
    is_generated: bool
    is_row_id: bool = False

    @property
    def affinity(self) -> str:
        """The type affinity that SQLite derives from the declared type."""
        declared = self.type.upper()
        if "INT" in declared:
            return "integer"
        if any(part in declared for part in ("CHAR", "CLOB", "TEXT")):
            return "text"
        if not declared or "BLOB" in declared:
            return "none"
        return "real" if any(part in declared for part in ("REAL", "FLOA", "DOUB")) else "numeric"

    @property
    def is_never_null(self) -> bool:
        return self.is_required or self.is_row_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingIndex:
    name: str
    is_unique: bool
    is_partial: bool
    columns: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLiteRelation:
    """A table, view or virtual table."""

    name: str
    kind: str
    columns: tuple[SQLiteColumn, ...]
    indexes: tuple[ExistingIndex, ...]

    def column(self, name: str) -> SQLiteColumn | None:
        return next((each for each in self.columns if is_same_name(each.name, name)), None)

    @property
    def column_names(self) -> list[str]:
        return [each.name for each in self.columns]

    def is_unique(self, columns: Iterable[str]) -> bool:
        """Return whether a unique key guarantees that two rows differ in these columns."""
        wanted = {fold_name(name) for name in columns}
        key = {fold_name(each.name) for each in self.columns if each.key_position}
        found = [{fold_name(str(name)) for name in each.columns} for each in self.indexes if _is_unique_key(each)]
        return any(each and each <= wanted for each in [key, *found])


@lru_cache(maxsize=4_096)
def fold_name(name: str) -> str:
    """Return a name in the form that SQLite compares: ASCII letters in lower case."""
    return re.sub("[A-Z]+", lambda capitals: capitals[0].lower(), name)


def is_same_name(name: str, other_name: str) -> bool:
    return fold_name(name) == fold_name(other_name)


def schema_version(db: sqlite3.Connection) -> int:
    (version,) = db.execute(CATALOGUE_STATEMENTS["schema version"]).fetchone()
    return int(version)


def read_table(db: sqlite3.Connection, spec: TableSpec) -> SQLiteRelation:
    """Return the user's table. If it does not exist, raise with similar names."""
    if spec.schema is not None and not is_same_name(spec.schema, "main"):
        raise ConfigurationError(
            f"table {spec.display_name!r} is not in schema main, but a claim needs the write lock of the file; "
            "use the URL of the file that has the table, and omit the schema"
        )
    found = read_relation(db, spec.name)
    if found is None:
        names = [name for _, name, _ in db.execute(CATALOGUE_STATEMENTS["tables and views"])]
        raise ConfigurationError(f"table {spec.name!r} does not exist in this file{_suggest_table(spec.name, names)}")
    if found.kind != "table":
        raise ConfigurationError(f"{spec.name!r} is a {found.kind}; name the underlying table")
    return found


def read_relation(db: sqlite3.Connection, name: str) -> SQLiteRelation | None:
    """Return the table or view with this name, or None."""
    relations = {
        fold_name(each): (kind, each, text) for kind, each, text in db.execute(CATALOGUE_STATEMENTS["tables and views"])
    }
    if fold_name(name) not in relations:
        return None
    kind, own_name, text = relations[fold_name(name)]
    is_virtual = re.match(r"\s*create\s+virtual\b", text, re.IGNORECASE) is not None
    return SQLiteRelation(
        name=own_name,
        kind="virtual table" if is_virtual else kind,
        columns=_read_columns(db, own_name, text),
        indexes=tuple(_read_indexes(db, own_name)),
    )


def read_triggers(db: sqlite3.Connection, name: str) -> list[tuple[str, str]]:
    """Return the names and SQL texts of the triggers on a table."""
    return db.execute(CATALOGUE_STATEMENTS["triggers"], {"table": name}).fetchall()


def _read_columns(db: sqlite3.Connection, table: str, text: str) -> tuple[SQLiteColumn, ...]:
    rows = db.execute(CATALOGUE_STATEMENTS["columns"], {"table": table}).fetchall()
    is_single = sum(bool(pk) for *_, pk, _ in rows) == 1
    has_row_id = re.search(r"\bwithout\s+rowid\b[^)]*$", text, re.IGNORECASE) is None
    return tuple(
        SQLiteColumn(
            name=name,
            type=type,
            is_required=bool(is_required) or (bool(pk) and not has_row_id),
            default=default,
            key_position=pk,
            is_generated=hidden in GENERATED_KINDS,
            is_row_id=bool(pk) and is_single and has_row_id and type.upper() == "INTEGER",
        )
        for name, type, is_required, default, pk, hidden in rows
    )


def _read_indexes(db: sqlite3.Connection, table: str) -> Iterable[ExistingIndex]:
    for name, is_unique, _, is_partial in db.execute(CATALOGUE_STATEMENTS["indexes"], {"table": table}).fetchall():
        columns = db.execute(CATALOGUE_STATEMENTS["indexed columns"], {"index": name}).fetchall()
        yield ExistingIndex(
            name=name,
            is_unique=bool(is_unique),
            is_partial=bool(is_partial),
            columns=tuple(each for (each,) in columns),
        )


def _is_unique_key(index: ExistingIndex) -> bool:
    return index.is_unique and not index.is_partial and None not in index.columns


def _suggest_table(name: str, names: list[str]) -> str:
    shown = ", ".join(repr(each) for each in sorted(names)[:10])
    return checks.did_you_mean(name, names) or (f"; the file has {shown}" if names else "; the file has no tables")
