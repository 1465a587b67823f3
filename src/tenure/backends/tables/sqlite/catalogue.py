"""What a file says of a table: its kind, its columns with their declared types, its indexes.

Names are the same if SQLite takes them for the same: whatever their case.
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

CATALOGUE = statements(__package__, "catalogue")

GENERATED = frozenset({2, 3})


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column as it was declared."""

    name: str
    type: str
    is_required: bool
    default: str | None
    place_in_key: int
    is_generated: bool
    is_row_id: bool = False

    @property
    def affinity(self) -> str:
        """What SQLite makes of the declared type, by its own rules."""
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
class Index:
    name: str
    is_unique: bool
    is_partial: bool
    columns: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """A table, or what has a name like one."""

    name: str
    kind: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]

    def column(self, name: str) -> Column | None:
        return next((each for each in self.columns if is_same(each.name, name)), None)

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.columns]

    def is_unique(self, columns: Iterable[str]) -> bool:
        """Tell whether no two rows have the same values here."""
        wanted = {folded(name) for name in columns}
        key = {folded(each.name) for each in self.columns if each.place_in_key}
        found = [{folded(str(name)) for name in each.columns} for each in self.indexes if _is_whole(each)]
        return any(each and each <= wanted for each in [key, *found])


@lru_cache(maxsize=4_096)
def folded(name: str) -> str:
    """Return a name as SQLite compares it: small and capital letters are the same, if they are of ASCII."""
    return re.sub("[A-Z]+", lambda capitals: capitals[0].lower(), name)


def is_same(name: str, other: str) -> bool:
    return folded(name) == folded(other)


def schema_version(db: sqlite3.Connection) -> int:
    (version,) = db.execute(CATALOGUE["schema version"]).fetchone()
    return int(version)


def table_of(db: sqlite3.Connection, spec: TableSpec) -> Thing:
    """Return the user's table, or raise with the names that are near."""
    if spec.schema is not None and not is_same(spec.schema, "main"):
        raise ConfigurationError(
            f"table {spec.shown!r} is in another schema than main; a claim needs the lock of its own file: "
            "name the file that has the table, without a schema"
        )
    found = thing_of(db, spec.name)
    if found is None:
        names = [name for _, name, _ in db.execute(CATALOGUE["things"])]
        raise ConfigurationError(f"there is no table {spec.name!r} in this file{_nearest(spec.name, names)}")
    if found.kind != "table":
        raise ConfigurationError(f"{spec.name!r} is a {found.kind}; name the table that its rows are in")
    return found


def thing_of(db: sqlite3.Connection, name: str) -> Thing | None:
    """Return what has this name, or None."""
    things = {folded(each): (kind, each, text) for kind, each, text in db.execute(CATALOGUE["things"])}
    if folded(name) not in things:
        return None
    kind, own_name, text = things[folded(name)]
    is_virtual = re.match(r"\s*create\s+virtual\b", text, re.IGNORECASE) is not None
    return Thing(
        name=own_name,
        kind="virtual table" if is_virtual else kind,
        columns=_columns(db, own_name, text),
        indexes=tuple(_indexes(db, own_name)),
    )


def triggers_of(db: sqlite3.Connection, name: str) -> list[tuple[str, str]]:
    """Return the name and the text of each trigger on a table."""
    return db.execute(CATALOGUE["triggers"], {"table": name}).fetchall()


def _columns(db: sqlite3.Connection, table: str, text: str) -> tuple[Column, ...]:
    rows = db.execute(CATALOGUE["columns"], {"table": table}).fetchall()
    is_single = sum(bool(pk) for *_, pk, _ in rows) == 1
    has_row_id = re.search(r"\bwithout\s+rowid\b[^)]*$", text, re.IGNORECASE) is None
    return tuple(
        Column(
            name=name,
            type=type,
            is_required=bool(is_required) or (bool(pk) and not has_row_id),
            default=default,
            place_in_key=pk,
            is_generated=hidden in GENERATED,
            is_row_id=bool(pk) and is_single and has_row_id and type.upper() == "INTEGER",
        )
        for name, type, is_required, default, pk, hidden in rows
    )


def _indexes(db: sqlite3.Connection, table: str) -> Iterable[Index]:
    for name, is_unique, _, is_partial in db.execute(CATALOGUE["indexes"], {"table": table}).fetchall():
        columns = db.execute(CATALOGUE["indexed columns"], {"index": name}).fetchall()
        yield Index(
            name=name,
            is_unique=bool(is_unique),
            is_partial=bool(is_partial),
            columns=tuple(each for (each,) in columns),
        )


def _is_whole(index: Index) -> bool:
    return index.is_unique and not index.is_partial and None not in index.columns


def _nearest(name: str, names: list[str]) -> str:
    shown = ", ".join(repr(each) for each in sorted(names)[:10])
    return checks.nearest(name, names) or (f"; it has {shown}" if names else "; it has none")
