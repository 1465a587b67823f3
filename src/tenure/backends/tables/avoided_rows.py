"""Rows that their table does not let tenure change. tenure avoids such a row, and retries it with a back-off."""

import logging
import threading
import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from tenure.backends.shared import forking
from tenure.core.log_fields import list_ids

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

SHORTEST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""Seconds for which a row is avoided: doubled each time that it cannot be changed again."""
REMEMBERED = 600.0
"""Seconds after which a row that was not rejected again counts as new."""
MOST_AVOIDED = 10_000
"""Maximum number of avoided rows: every claim sends their keys."""


@dataclass(slots=True)
class _Avoided:
    id: str
    until: float
    delay: float
    level: int
    action: str


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
        self,
        rows: Mapping[K, str],
        action: str,
        reason: str,
        *,
        level: int = logging.ERROR,
        delay: float | None = None,
    ) -> None:
        """Avoid rows that could not be changed, given as ids by key, at first for `delay` or `SHORTEST_DELAY` seconds.

        Log the first failure of a row in an action, and its first one of a higher level: all rows in one line.
        """
        new_ids = [id for key, id in rows.items() if self._add(key, id, action, level, delay or SHORTEST_DELAY)]
        if new_ids:
            log.log(
                level,
                "%s %s of %s not %s: %s; the other rows are not affected",
                "row" if len(new_ids) == 1 else "rows",
                list_ids(new_ids),
                self._table,
                action,
                reason,
                extra={"table": self._table, **({"job": new_ids[0]} if len(new_ids) == 1 else {"jobs": new_ids})},
            )

    def forget(self, ids: Iterable[str]) -> None:
        """Forget the rows that were claimed: the next failure of such a row is new."""
        if not self._rows:
            return
        claimed = set(ids)
        with self._lock:
            for key in [key for key, row in self._rows.items() if row.id in claimed]:
                del self._rows[key]

    def _add(self, key: K, id: str, action: str, level: int, delay: float) -> bool:
        """Avoid a row; return whether this failure is of another action, or has a higher level than all before."""
        now = time.monotonic()
        with self._lock:
            self._drop_old(now)
            before = self._rows.pop(key, None)
            if before is not None:
                # Other threads may have tried the row at the same time: their failures count once.
                delay = before.delay if now < before.until else max(delay, min(2 * before.delay, LONGEST_DELAY))
            known_level = logging.NOTSET if before is None or before.action != action else before.level
            self._rows[key] = _Avoided(id, now + delay, delay, max(level, known_level), action)
            return level > known_level

    def _drop_old(self, now: float) -> None:
        """Drop the rows, from the oldest on, that were not rejected again for a while, or are too many."""
        while self._rows:
            key, row = next(iter(self._rows.items()))
            if now < row.until + REMEMBERED and len(self._rows) < MOST_AVOIDED:
                return
            del self._rows[key]
