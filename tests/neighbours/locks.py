"""Row locks that another connection holds during a run on PostgreSQL."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.neighbours.board import Board

POLL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LockPlan:
    """The statements that lock members, each with a list of ids as its only parameter.

    `first` are run before the workers start. `while_running` selects and locks the ids of running members, and is
    repeated until all are locked.
    """

    url: str
    first: Sequence[tuple[str, list[Any]]]
    while_running: str
    running_ids: list[Any] = field(default_factory=list)


class Locks:
    """Holds the locks in one transaction until the end of the block."""

    def __init__(self, plan: LockPlan | None, board: Board) -> None:
        self._plan = plan
        self._board = board
        self._stopped = threading.Event()
        self._connection: psycopg.Connection[Any] | None = None
        self._thread = threading.Thread(target=self._lock_running, daemon=True)
        self.locked = 0
        """The number of members that are locked."""

    def __enter__(self) -> Self:
        if self._plan is not None:
            self._connection = psycopg.connect(self._plan.url)
            for statement, ids in self._plan.first:
                self.locked += self._connection.execute(statement.encode(), [ids]).rowcount
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        if self._connection is not None:
            self._thread.join()
            self._connection.rollback()
            self._connection.close()

    def _lock_running(self) -> None:
        assert self._plan is not None
        assert self._connection is not None
        left = set(self._plan.running_ids)
        while left and not self._stopped.wait(POLL):
            for (id,) in self._connection.execute(self._plan.while_running.encode(), [list(left)]).fetchall():
                left.discard(id)
                self.locked += 1
                self._board.set(f"locked-{id}")
        # The handlers of members that were not locked in time must end too.
        for id in left:
            self._board.set(f"locked-{id}")
