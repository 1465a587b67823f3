"""Rows that their table does not let tenure change. tenure avoids such a row, and retries it with a back-off."""

import logging
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tenure.backends.shared import forking

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

SHORTEST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""Seconds for which a row is avoided: doubled each time that the table rejects the row again."""
REMEMBERED = 600.0
"""Seconds after which a row that was not rejected again counts as new."""
MOST_AVOIDED = 10_000
"""Maximum number of avoided rows: every claim sends their keys."""


@dataclass(slots=True)
class _Avoided:
    until: float
    delay: float
    level: int


class AvoidedRows(Generic[K]):
    """The avoided rows of one table, by key. Thread-safe."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._rows: dict[K, _Avoided] = {}
        forking.register(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock: another thread of the parent may hold it."""
        self._lock = threading.Lock()

    def keys(self) -> list[K]:
        """Return the keys of the rows to avoid now."""
        if not self._rows:
            return []
        now = time.monotonic()
        with self._lock:
            return [key for key, row in self._rows.items() if now < row.until]

    def avoid(
        self, key: K, id: str, action: str, reason: str, *, level: int = logging.ERROR, is_logged: bool = True
    ) -> None:
        """Avoid a row that could not be changed. Log its first failure, and the first one of a higher level."""
        if self._add(key, level) and is_logged:
            log.log(
                level,
                "row %s of %s not %s: %s; the other rows are not affected",
                id,
                self._table,
                action,
                reason,
                extra={"job": id, "table": self._table},
            )

    def _add(self, key: K, level: int) -> bool:
        """Avoid a row; return whether this failure has a higher level than all before."""
        now = time.monotonic()
        with self._lock:
            self._drop_old(now)
            before = self._rows.pop(key, None)
            delay = SHORTEST_DELAY if before is None else min(2 * before.delay, LONGEST_DELAY)
            known_level = logging.NOTSET if before is None else before.level
            self._rows[key] = _Avoided(now + delay, delay, max(level, known_level))
            return level > known_level

    def _drop_old(self, now: float) -> None:
        """Drop the rows, from the oldest on, that were not rejected again for a while, or are too many."""
        while self._rows:
            key, row = next(iter(self._rows.items()))
            if now < row.until + REMEMBERED and len(self._rows) < MOST_AVOIDED:
                return
            del self._rows[key]
