"""The SQL of a table for people to read: the statements of each operation, and the schema."""

import re
from collections.abc import Mapping
from importlib.resources import files

from tenure.backends.tables.sqlite import ddl, sort_position
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import table_aliases, table_fragments
from tenure.core.job import State
from tenure.core.table.spec import Role, quote_identifier

OPERATIONS = ("claim", "extend", "find", "move", "reap", "row", "settle", "explain", "stats", "wait")


def printable_sql(layout: Layout) -> Mapping[str, str]:
    """Return the SQL of each operation by name, and the SQL of the schema. Values are named parameters."""
    found = {operation: _operation_sql(layout, operation) for operation in OPERATIONS}
    return {**found, "schema": "".join(f"{each};\n" for each in ddl.schema_statements(layout))}


def _operation_sql(layout: Layout, operation: str) -> str:
    text = files(__package__).joinpath(f"{operation}.sql").read_text("utf-8")
    row, kept = table_aliases(layout)
    own_name = quote_identifier(layout.spec.name)
    state_column = quote_identifier(str(layout.spec.column(Role.STATE)))
    order = layout.order if operation == "find" else layout.claim_order
    cleared = ", ".join(f"{quote_identifier(name)} = :set_{n}" for n, name in enumerate(layout.spec.on_retry))
    examples = {
        "sort_values": sort_position.select_list(order, row if operation == "find" else own_name),
        "is_requested": "1",
        "is_beyond": sort_position.beyond_condition(order, row, is_reversed=True),
        "is_before": sort_position.beyond_condition(order, own_name, is_reversed=True),
        "sorting": ", ".join(each.sort_item(row, is_reversed=True) for each in order),
        "is_of_state": f"{kept}.{state_column} = {layout.state_literal(State.FAILED)}",
        "cleared": cleared,
    }
    if not cleared:
        text = re.sub(r"-- name: clear\n.*?;\n\n", "", text, flags=re.DOTALL)
    if not layout.spec.is_sidecar:
        text = re.sub(r"-- name: begin\n.*?;\n\n", "", text, flags=re.DOTALL)
    return text.format(**table_fragments(layout), **examples)
