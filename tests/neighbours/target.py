"""What a run needs of a store or a table."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tenure
from tenure.core.job import Job, State
from tests.neighbours.board import Board
from tests.neighbours.locks import LockPlan
from tests.neighbours.members import Kind, Member

Source = tenure.Jobs | tenure.Table[Any]


class Target(ABC):
    """A store or a table. Worker processes build the same target from `options`."""

    kinds: Sequence[Kind]

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The options of the constructor, as JSON values."""

    @abstractmethod
    def member(self, position: int, kind: Kind) -> Member:
        """Return the member at a position of the order."""

    @abstractmethod
    def fill(self, members: Sequence[Member]) -> None:
        """Store the members in their order."""

    @abstractmethod
    def prepare(self, members: Sequence[Member]) -> None:
        """Bring the members into the state in which the workers find them."""

    @abstractmethod
    def open_source(self, board: Board) -> Source:
        """Open the source for a worker, with its handlers."""

    @abstractmethod
    def states(self) -> Counter[tuple[str, State]]:
        """Count the members by kind and state."""

    @abstractmethod
    def find(self) -> Iterator[Job]:
        """Yield all members as jobs."""

    @abstractmethod
    def is_whole(self) -> bool:
        """Return whether the content is consistent."""

    @abstractmethod
    def close(self) -> None: ...

    @property
    def has_own_processes(self) -> bool:
        """Whether worker processes can open the target."""
        return True

    def lock_plan(self, members: Sequence[Member]) -> LockPlan | None:  # noqa: ARG002 - for targets with row locks
        """Return which members another connection locks; None if the target has no row locks."""
        return None


def batches(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
