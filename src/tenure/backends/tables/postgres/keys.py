"""From the key of a row to the id of a job, and back.

An id is read only in the one way in which it is written, so that a row has one id; and what cannot be a key is never
sent, for the server would raise.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from tenure.backends.postgres.encoding import Value, texts
from tenure.backends.tables.postgres.catalogue import Column
from tenure.backends.tables.postgres.layout import KEY_TYPES
from tenure.core import checks

BITS = {"smallint": 16, "integer": 32, "bigint": 64}

Key = tuple[str, ...]
"""The values of its columns, as texts."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The columns of a key."""

    columns: tuple[Column, ...]

    def id_of(self, key: Sequence[str]) -> str:
        return key[0] if len(key) == 1 else json.dumps(list(key), ensure_ascii=False, separators=(",", ":"))

    def key_of(self, id: str) -> Key | None:
        """Return the key that an id means, or None for one that no row can have."""
        if checks.clean(id) != id:
            return None
        key = (id,) if len(self.columns) == 1 else _list_of(id)
        is_possible = len(key) == len(self.columns) and all(
            _can_be(KEY_TYPES[column.base], text) for column, text in zip(self.columns, key, strict=True)
        )
        return key if is_possible and self.id_of(key) == id else None

    def values(self, keys: Iterable[Key]) -> dict[str, Value]:
        """Return keys as a statement takes them: an array for each column."""
        columns = list(zip(*keys, strict=True)) or [()] * len(self.columns)
        return {f"key_{number}": texts(column) for number, column in enumerate(columns, start=1)}


def _list_of(id: str) -> Key:
    try:
        found = json.loads(id)
    except (ValueError, RecursionError):
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(each, str) for each in found) else ()


def _can_be(kind: str, text: str) -> bool:
    if kind == "text":
        return checks.clean(text) == text
    if kind == "uuid":
        return len(text) == len(str(UUID(int=0))) and _is_uuid(text)
    bits = BITS[kind]
    is_number = text.removeprefix("-").isdigit() and text.isascii() and len(text) <= len(str(-(2**63)))
    return is_number and str(int(text)) == text and -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1)


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
