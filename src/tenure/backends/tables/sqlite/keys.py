"""Convert the key of a row to the id of a job, and back.

Only the canonical form of an id is valid, so a row has exactly one id.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenure.backends.tables.sqlite.catalogue import SQLiteColumn
from tenure.core import checks

SMALLEST_INTEGER, GREATEST_INTEGER = -(2**63), 2**63 - 1

KeyValues = tuple[Any, ...]


def id_of(key: Sequence[Any]) -> str:
    texts = [str(each) for each in key]
    return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Keys:
    """The columns of a key: integers or text."""

    columns: tuple[SQLiteColumn, ...]

    def id_of(self, key: Sequence[Any]) -> str:
        return id_of(key)

    def has_id(self, key: Sequence[Any]) -> bool:
        """Return whether a key has an id. A text that is not valid UTF-8 has no id that could be read back."""
        return self.key_of(id_of(key)) is not None

    def key_of(self, id: str) -> KeyValues | None:
        """Return the key for an id, or None if no row can have this id."""
        if checks.replace_unstorable(id) != id:
            return None
        texts = [id] if len(self.columns) == 1 else _parse_list(id)
        if len(texts) != len(self.columns):
            return None
        key = tuple(_parse_value(column, text) for column, text in zip(self.columns, texts, strict=True))
        return None if None in key or self.id_of(key) != id else key


def is_usable(column: SQLiteColumn) -> bool:
    """Return whether a column can be part of a key: integers or text."""
    return column.affinity in {"integer", "text"} or column.type.upper() == "UUID"


def storage_class_of(column: SQLiteColumn) -> str:
    """Return the `typeof` of the values that a key column may have."""
    return "integer" if column.affinity == "integer" else "text"


def _parse_list(id: str) -> list[str]:
    try:
        found = json.loads(id)
    except ValueError:
        return []
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else []


def _parse_value(column: SQLiteColumn, text: str) -> str | int | None:
    if storage_class_of(column) == "text":
        return text
    is_number = re.fullmatch(r"-?[0-9]{1,19}", text) is not None
    return int(text) if is_number and SMALLEST_INTEGER <= int(text) <= GREATEST_INTEGER else None
