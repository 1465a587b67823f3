"""The triggers on the user's table that keep its sidecar table in step.

A new row deletes the sidecar row that has its key. If a key changes, the sidecar row gets the new key. Without the
triggers, a row that gets the key of a deleted row takes over the claim and the state of the deleted row. A foreign key
does not help: SQLite enforces it only on connections that turn foreign keys on.

A trigger counts as present if any trigger has the same definition, under any name.
"""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

from tenure.backends.tables.sqlite.catalogue import fold_name
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import load_templates
from tenure.core.table.spec import derive_name, quote_identifier

CREATE_TRIGGER_PATTERN = re.compile(
    r"""create\s+trigger\s+(?:"(?:[^"]|"")*"|\[[^\]]*\]|`[^`]*`|\w+)\s+(.*)""", re.IGNORECASE | re.DOTALL
)
"""Matches a stored `create trigger` statement: its definition."""

PURPOSES = ("new row", "new key")
"""The names of the definitions in `ddl.sql`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrigger:
    """A trigger to create. The definition is SQL text."""

    name: str
    definition: str

    def create_statement(self) -> str:
        return load_templates(__package__, "ddl")["trigger"].format(
            trigger=quote_identifier(self.name), definition=self.definition
        )

    def with_unique_name(self) -> "PlannedTrigger":
        digest = blake2b(self.definition.encode(), digest_size=4).hexdigest()
        return replace(self, name=derive_name(self.name, digest))


def missing_triggers(db: sqlite3.Connection, layout: Layout) -> Iterator[PlannedTrigger]:
    """Yield the missing triggers of a table; none if the table has no sidecar."""
    rows = db.execute(load_templates(__package__, "ddl")["triggers"]).fetchall()
    names = {fold_name(name) for name, _ in rows}
    definitions = {
        _collapse_spaces(found[1]) for _, text in rows if (found := CREATE_TRIGGER_PATTERN.fullmatch(text)) is not None
    }
    for each in required_triggers(layout):
        if _collapse_spaces(each.definition) not in definitions:
            yield each.with_unique_name() if fold_name(each.name) in names else each


def required_triggers(layout: Layout) -> Iterator[PlannedTrigger]:
    """Yield the triggers that a table with a sidecar needs."""
    name = layout.spec.sidecar_name
    if name is None:
        return
    prefix = name if name.startswith("tenure_") else f"tenure_{name}"
    key = [quote_identifier(each) for each in layout.spec.key]
    fragments = {
        "table": quote_identifier(layout.table.name),
        "companion": quote_identifier(name),
        "key": ", ".join(key),
        "is_new": " and ".join(f"{each} = new.{each}" for each in key),
        "is_old": " and ".join(f"{each} = old.{each}" for each in key),
        "set_new": ", ".join(f"{each} = new.{each}" for each in key),
        "has_changed": " or ".join(f"old.{each} collate binary is not new.{each}" for each in key),
    }
    for purpose in PURPOSES:
        definition = load_templates(__package__, "ddl")[purpose].format(**fragments)
        yield PlannedTrigger(name=derive_name(prefix, purpose.replace(" ", "_")), definition=definition)


def _collapse_spaces(text: str) -> str:
    return " ".join(text.split())
