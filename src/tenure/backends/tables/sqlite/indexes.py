"""The indexes of a table: for claims, the filter, leases, tokens, rows found done, and the output.

An index counts as present if any index has the same definition, under any name. No index is dropped: another
description of the same table, with another order, may need it.
"""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

from tenure.backends.tables.equality_columns import equal_columns
from tenure.backends.tables.sqlite.catalogue import fold_name, is_same_name, read_relation
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import found_done_expression, load_templates
from tenure.core.job import State
from tenure.core.table.spec import OutputLocation, Role, derive_name, quote_identifier
from tenure.errors import ConfigurationError

CREATE_INDEX_PATTERN = re.compile(
    r"""create\s+(unique\s+)?index\s+(?:"(?:[^"]|"")*"|\[[^\]]*\]|`[^`]*`|\w+)\s+on\s+(.*)""", re.IGNORECASE | re.DOTALL
)
"""Matches a stored `create index` statement: whether it is unique, and its definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedIndex:
    """An index to create. All fields except the name are SQL text."""

    name: str
    table: str
    columns: str
    condition: str = ""
    is_unique: bool = False

    @property
    def definition(self) -> str:
        condition = f" where {self.condition}" if self.condition else ""
        return f"{self.table} ({self.columns}){condition}"

    def create_statement(self) -> str:
        unique = "unique " if self.is_unique else ""
        return load_templates(__package__, "ddl")["index"].format(
            unique=unique, index=quote_identifier(self.name), definition=self.definition
        )

    def with_unique_name(self) -> "PlannedIndex":
        digest = blake2b(self.definition.encode(), digest_size=4).hexdigest()
        return replace(self, name=derive_name(self.name, digest))


def missing_indexes(db: sqlite3.Connection, layout: Layout) -> Iterator[PlannedIndex]:
    """Yield the missing indexes of a table."""
    rows = db.execute(load_templates(__package__, "ddl")["indexes"]).fetchall()
    names = {fold_name(name) for name, _ in rows}
    definitions = {
        (_collapse_spaces(found[2]), found[1] is not None)
        for _, text in rows
        if (found := CREATE_INDEX_PATTERN.fullmatch(text))
    }
    for each in required_indexes(layout):
        is_present = (_collapse_spaces(each.definition), each.is_unique) in definitions
        if not is_present and not (each.is_unique and _is_output_unique(db, layout)):
            yield each.with_unique_name() if fold_name(each.name) in names else each


def required_indexes(layout: Layout) -> Iterator[PlannedIndex]:
    """Yield all indexes that a table needs."""
    spec = layout.spec
    name = spec.sidecar_name or layout.table.name
    kept, prefix = quote_identifier(name), name if name.startswith("tenure_") else f"tenure_{name}"
    state = quote_identifier(str(spec.column(Role.STATE)))
    is_queued, is_running = (
        f"{state} = {layout.state_literal(State.QUEUED)}",
        f"{state} = {layout.state_literal(State.RUNNING)}",
    )
    order = ", ".join(each.sort_item() for each in layout.claim_order)
    if spec.is_sidecar:
        run_at = quote_identifier(Role.RUN_AT)
        yield PlannedIndex(name=derive_name(prefix, "waiting"), table=kept, columns=run_at, condition=is_queued)
    else:
        yield PlannedIndex(name=derive_name(prefix, "claim"), table=kept, columns=order, condition=is_queued)
        if filtered := filter_columns(layout):
            columns = ", ".join([*map(quote_identifier, filtered), order])
            yield PlannedIndex(name=derive_name(prefix, "filter"), table=kept, columns=columns, condition=is_queued)
    for what, role in (("leases", Role.LEASED_UNTIL), ("tokens", Role.TOKEN)):
        column = quote_identifier(str(spec.column(role)))
        yield PlannedIndex(name=derive_name(prefix, what), table=kept, columns=column, condition=is_running)
    done = found_done_expression(quote_identifier(str(spec.column(Role.RECORD))))
    yield PlannedIndex(
        name=derive_name(prefix, "found_done"), table=kept, columns=done, condition=f"{done} is not null"
    )
    if spec.output is not None:
        yield _output_index(spec.output)


def filter_columns(layout: Layout) -> list[str]:
    """Return the columns that `where` compares with single values; an empty list if `where` has other conditions."""
    found = [layout.table.column(name) for name in equal_columns(layout.spec.where)]
    names = [each.name for each in found if each is not None]
    state = str(layout.spec.column(Role.STATE))
    return [each for each in names if not is_same_name(each, state)] if len(names) == len(found) else []


def duplicates_query(output: OutputLocation) -> str:
    """Return the query that lists the output rows which violate the unique index."""
    columns = ", ".join(map(quote_identifier, output.columns))
    has_values = " and ".join(f"{quote_identifier(name)} is not null" for name in output.columns)
    table = f"main.{quote_identifier(output.table)}"
    return f"select {columns}, count(*) from {table} where {has_values} group by {columns} having count(*) > 1"  # noqa: S608


def _output_index(output: OutputLocation) -> PlannedIndex:
    if output.schema is not None and not is_same_name(output.schema, "main"):
        raise ConfigurationError(
            f"output {output.schema}.{output.table} is not in the file of the table; use a table of that file"
        )
    return PlannedIndex(
        name=derive_name("tenure", output.table, "output"),
        table=quote_identifier(output.table),
        columns=", ".join(map(quote_identifier, output.columns)),
        is_unique=True,
    )


def _is_output_unique(db: sqlite3.Connection, layout: Layout) -> bool:
    output = layout.spec.output
    if output is None:
        return False
    table = read_relation(db, output.table)
    if table is None:
        raise ConfigurationError(f"output: table {output.table!r} does not exist in this file; create the table first")
    for name in output.columns:
        if table.column(name) is None:
            shown = ", ".join(table.column_names)
            raise ConfigurationError(f"output: table {output.table!r} has no column {name!r}; the table has {shown}")
    return table.is_unique(output.columns)


def _collapse_spaces(text: str) -> str:
    return " ".join(text.split())
