"""Convert the key of a row to the id of a job, and back.

Only the canonical form of an id is valid, so a row has exactly one id. Impossible keys are never sent: the server would
raise an error.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from tenure.backends.postgres.encoding import Value, text_array
from tenure.backends.tables.postgres.catalogue import PostgresColumn
from tenure.backends.tables.postgres.layout import KEY_TYPES
from tenure.core import checks

INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}

KeyTexts = tuple[str, ...]
"""The values of the key columns, as text."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The columns of a key."""

    columns: tuple[PostgresColumn, ...]

    def id_of(self, key: Sequence[str]) -> str:
        return key[0] if len(key) == 1 else json.dumps(list(key), ensure_ascii=False, separators=(",", ":"))

    def key_of(self, id: str) -> KeyTexts | None:
        """Return the key for an id, or None if no row can have this id."""
        if checks.replace_unstorable(id) != id:
            return None
        key = (id,) if len(self.columns) == 1 else _parse_list(id)
        is_possible = len(key) == len(self.columns) and all(
            _is_valid(KEY_TYPES[column.base], text) for column, text in zip(self.columns, key, strict=True)
        )
        return key if is_possible and self.id_of(key) == id else None

    def values(self, keys: Iterable[KeyTexts], prefix: str = "key") -> dict[str, Value]:
        """Return keys as statement values: one array per column."""
        columns = list(zip(*keys, strict=True)) or [()] * len(self.columns)
        return {f"{prefix}_{number}": text_array(column) for number, column in enumerate(columns, start=1)}


def _parse_list(id: str) -> KeyTexts:
    try:
        found = json.loads(id)
    except (ValueError, RecursionError):
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(each, str) for each in found) else ()


def _is_valid(type_name: str, text: str) -> bool:
    if type_name == "text":
        return checks.replace_unstorable(text) == text
    if type_name == "uuid":
        return len(text) == len(str(UUID(int=0))) and _is_uuid(text)
    bits = INTEGER_BITS[type_name]
    is_number = text.removeprefix("-").isdigit() and text.isascii() and len(text) <= len(str(-(2**63)))
    return is_number and str(int(text)) == text and -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1)


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
