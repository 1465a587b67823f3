"""All jobs in enqueue order, for paging."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

REBUILD_SLACK = 64


class EnqueueOrder:
    """Sequence numbers in order, with their ids. Removed numbers stay until they are the majority."""

    __slots__ = ("_ids", "_sequences")

    def __init__(self) -> None:
        self._sequences: list[int] = []
        self._ids: dict[int, str] = {}

    def add(self, sequence: int, id: str) -> None:
        self._sequences.append(sequence)
        self._ids[sequence] = id

    def remove(self, sequence: int) -> None:
        del self._ids[sequence]
        if len(self._sequences) > 2 * len(self._ids) + REBUILD_SLACK:
            self._sequences = list(self._ids)

    def ids_beyond(self, cursor: int | None, *, newest_first: bool) -> Iterator[str]:
        """Yield the ids beyond the cursor in the given direction."""
        for sequence in self._sequences_beyond(cursor, newest_first=newest_first):
            if (id := self._ids.get(sequence)) is not None:
                yield id

    def _sequences_beyond(self, cursor: int | None, *, newest_first: bool) -> Iterable[int]:
        if newest_first:
            end = len(self._sequences) if cursor is None else bisect_left(self._sequences, cursor)
            return (self._sequences[at] for at in range(end - 1, -1, -1))
        start = 0 if cursor is None else bisect_right(self._sequences, cursor)
        return (self._sequences[at] for at in range(start, len(self._sequences)))
