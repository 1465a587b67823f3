"""The indexes of a table: for the claim, the filter, leases and tokens, what was found done, and the output.

An index is there if one has its definition, under whatever name. None is dropped: another description of the table,
with another order, may live by it.
"""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

from tenure.backends.tables.equality_columns import equal_columns
from tenure.backends.tables.sqlite.catalogue import folded, is_same, thing_of
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import found_done, parts_of
from tenure.core.job import State
from tenure.core.table.spec import Output, Role, made_name, quoted
from tenure.errors import ConfigurationError

MADE = re.compile(
    r"""create\s+(unique\s+)?index\s+(?:"(?:[^"]|"")*"|\[[^\]]*\]|`[^`]*`|\w+)\s+on\s+(.*)""", re.IGNORECASE | re.DOTALL
)
"""An index as the file remembers it: whether it is unique, and its definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """An index to be made; all but its name is as it stands in the statement."""

    name: str
    table: str
    columns: str
    condition: str = ""
    is_unique: bool = False

    @property
    def definition(self) -> str:
        condition = f" where {self.condition}" if self.condition else ""
        return f"{self.table} ({self.columns}){condition}"

    def text(self) -> str:
        unique = "unique " if self.is_unique else ""
        return parts_of(__package__, "ddl")["index"].format(
            unique=unique, index=quoted(self.name), definition=self.definition
        )

    def under_another_name(self) -> "IndexSpec":
        digest = blake2b(self.definition.encode(), digest_size=4).hexdigest()
        return replace(self, name=made_name(self.name, digest))


def missing_indexes(db: sqlite3.Connection, layout: Layout) -> Iterator[IndexSpec]:
    """Yield the indexes that a table lacks."""
    rows = db.execute(parts_of(__package__, "ddl")["indexes"]).fetchall()
    names = {folded(name) for name, _ in rows}
    definitions = {(_plain(found[2]), found[1] is not None) for _, text in rows if (found := MADE.fullmatch(text))}
    for each in indexes(layout):
        is_there = (_plain(each.definition), each.is_unique) in definitions
        if not is_there and not (each.is_unique and _is_output_unique(db, layout)):
            yield each.under_another_name() if folded(each.name) in names else each


def indexes(layout: Layout) -> Iterator[IndexSpec]:
    """Yield the indexes that a table is to have."""
    spec = layout.spec
    name = spec.companion or layout.table.name
    kept, prefix = quoted(name), name if name.startswith("tenure_") else f"tenure_{name}"
    state = quoted(str(spec.column(Role.STATE)))
    is_queued, is_running = f"{state} = {layout.word(State.QUEUED)}", f"{state} = {layout.word(State.RUNNING)}"
    order = ", ".join(each.sorted() for each in layout.claim_order)
    if spec.is_sidecar:
        run_at = quoted(Role.RUN_AT)
        yield IndexSpec(name=made_name(prefix, "waiting"), table=kept, columns=run_at, condition=is_queued)
    else:
        yield IndexSpec(name=made_name(prefix, "claim"), table=kept, columns=order, condition=is_queued)
        if filtered := filter_columns(layout):
            columns = ", ".join([*map(quoted, filtered), order])
            yield IndexSpec(name=made_name(prefix, "filter"), table=kept, columns=columns, condition=is_queued)
    for what, role in (("leases", Role.LEASED_UNTIL), ("tokens", Role.TOKEN)):
        column = quoted(str(spec.column(role)))
        yield IndexSpec(name=made_name(prefix, what), table=kept, columns=column, condition=is_running)
    done = found_done(quoted(str(spec.column(Role.RECORD))))
    yield IndexSpec(name=made_name(prefix, "found_done"), table=kept, columns=done, condition=f"{done} is not null")
    if spec.output is not None:
        yield _of_the_output(spec.output)


def filter_columns(layout: Layout) -> list[str]:
    """Return the columns that `where` compares with one value each, if it does nothing else."""
    found = [layout.table.column(name) for name in equal_columns(layout.spec.where)]
    names = [each.name for each in found if each is not None]
    state = str(layout.spec.column(Role.STATE))
    return [each for each in names if not is_same(each, state)] if len(names) == len(found) else []


def duplicates(output: Output) -> str:
    """Return the query that finds rows of the output which keep the unique index from being made."""
    columns = ", ".join(map(quoted, output.columns))
    has_values = " and ".join(f"{quoted(name)} is not null" for name in output.columns)
    table = f"main.{quoted(output.table)}"
    return f"select {columns}, count(*) from {table} where {has_values} group by {columns} having count(*) > 1"  # noqa: S608


def _of_the_output(output: Output) -> IndexSpec:
    if output.schema is not None and not is_same(output.schema, "main"):
        raise ConfigurationError(
            f"output {output.schema}.{output.table} is not in the file of the table; name one of that, without a schema"
        )
    return IndexSpec(
        name=made_name("tenure", output.table, "output"),
        table=quoted(output.table),
        columns=", ".join(map(quoted, output.columns)),
        is_unique=True,
    )


def _is_output_unique(db: sqlite3.Connection, layout: Layout) -> bool:
    output = layout.spec.output
    if output is None:
        return False
    table = thing_of(db, output.table)
    if table is None:
        raise ConfigurationError(f"output: there is no table {output.table!r} in this file; make it first")
    for name in output.columns:
        if table.column(name) is None:
            shown = ", ".join(table.names)
            raise ConfigurationError(f"output: table {output.table!r} has no column {name!r}; it has {shown}")
    return table.is_unique(output.columns)


def _plain(text: str) -> str:
    return " ".join(text.split())
