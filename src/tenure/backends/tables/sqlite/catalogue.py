"""Read a table from the catalogue of a file: kind, columns with declared types, indexes.

Names are compared as SQLite compares them, ignoring case.
"""

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from tenure.backends.shared.sql_files import statements
from tenure.core import checks
from tenure.core.table.spec import TableSpec, quote_identifier
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
class SQLiteRelation:
    """A table, view or virtual table."""

    name: str
    kind: str
    columns: tuple[SQLiteColumn, ...]
    unique_keys: tuple[frozenset[str], ...]
    """Columns, by folded names, that are not all equal in two rows."""

    def column(self, name: str) -> SQLiteColumn | None:
        return next((each for each in self.columns if is_same_name(each.name, name)), None)

    @property
    def column_names(self) -> list[str]:
        return [each.name for each in self.columns]

    def is_unique(self, columns: Iterable[str]) -> bool:
        """Return whether a unique key guarantees that two rows differ in these columns."""
        wanted = {fold_name(name) for name in columns}
        return any(key <= wanted for key in self.unique_keys)


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
    columns = _read_columns(db, own_name, text)
    row_id = [frozenset({fold_name(each.name)}) for each in columns if each.is_row_id]
    return SQLiteRelation(
        name=own_name,
        kind="virtual table" if is_virtual else kind,
        columns=columns,
        unique_keys=(*row_id, *_read_unique_keys(db, own_name)),
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
            is_generated=hidden in GENERATED_KINDS,
            is_row_id=bool(pk) and is_single and has_row_id and type.upper() == "INTEGER",
        )
        for name, type, is_required, default, pk, hidden in rows
    )


def _read_unique_keys(db: sqlite3.Connection, table: str) -> Iterable[frozenset[str]]:
    indexes = db.execute(CATALOGUE_STATEMENTS["unique indexes"], {"table": table}).fetchall()
    for _, rows in groupby(indexes, key=itemgetter(0)):
        columns = [(column, collation) for _, column, collation in rows]
        if all(column is not None and _is_as_strict(db, table, column, collation) for column, collation in columns):
            yield frozenset(fold_name(column) for column, _ in columns)


def _is_as_strict(db: sqlite3.Connection, table: str, column: str, collation: str) -> bool:
    """Return whether a unique index with this collation rejects all values that a query of the column finds equal."""
    return _read_collation(db, table, column) in {"BINARY", collation}


def _read_collation(db: sqlite3.Connection, table: str, column: str) -> str | None:
    """Return the collation of a column; None if only the program that owns the table defines it.

    No pragma shows the collation. A union removes duplicates by the collation of its first column.
    """
    column, table = quote_identifier(column), quote_identifier(table)
    union = f"select {column} from main.{table} where 0 union select 'a' union select ?"  # noqa: S608
    try:
        for collation, equal in (("NOCASE", "A"), ("RTRIM", "a ")):
            if len(db.execute(union, (equal,)).fetchall()) == 1:
                return collation
    except sqlite3.OperationalError as exc:
        if "no such collation sequence" not in str(exc):
            raise
        return None
    return "BINARY"


def _suggest_table(name: str, names: list[str]) -> str:
    shown = ", ".join(repr(each) for each in sorted(names)[:10])
    return checks.did_you_mean(name, names) or (f"; the file has {shown}" if names else "; the file has no tables")
