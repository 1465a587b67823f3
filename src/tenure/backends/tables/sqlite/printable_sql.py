"""What a table runs, as text to be read: the statements of each operation with its names, and the schema."""

import re
from collections.abc import Mapping
from importlib.resources import files

from tenure.backends.tables.sqlite import ddl
from tenure.backends.tables.sqlite import sort_position as places
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import aliases_of, fragments_of
from tenure.core.job import State
from tenure.core.table.spec import Role, quoted

OPERATIONS = ("claim", "extend", "find", "move", "reap", "row", "settle", "standing", "stats", "wait")


def texts(layout: Layout) -> Mapping[str, str]:
    """Return the text of each operation by its name, and that of the schema; values are still named."""
    found = {operation: _text(layout, operation) for operation in OPERATIONS}
    return {**found, "schema": "".join(f"{each};\n" for each in ddl.schema(layout))}


def _text(layout: Layout, operation: str) -> str:
    text = files(__package__).joinpath(f"{operation}.sql").read_text("utf-8")
    row, kept = aliases_of(layout)
    own_name = quoted(layout.spec.name)
    order = layout.order if operation == "find" else layout.claim_order
    cleared = ", ".join(f"{quoted(name)} = :set_{n}" for n, name in enumerate(layout.spec.on_retry))
    examples = {
        "places": places.selected(order, row if operation == "find" else own_name),
        "is_asked_for": "1",
        "is_beyond": places.beyond(order, row, is_reversed=True),
        "is_before": places.beyond(order, own_name, is_reversed=True),
        "sorting": ", ".join(each.sorted(row, is_reversed=True) for each in order),
        "is_of_state": f"{kept}.{quoted(str(layout.spec.column(Role.STATE)))} = {layout.word(State.FAILED)}",
        "cleared": cleared,
    }
    if not cleared:
        text = re.sub(r"-- name: clear\n.*?;\n\n", "", text, flags=re.DOTALL)
    if not layout.spec.is_sidecar:
        text = re.sub(r"-- name: begin\n.*?;\n\n", "", text, flags=re.DOTALL)
    return text.format(**fragments_of(layout), **examples)
