"""A waiting line: ids in order, with removal from anywhere."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol

REBUILD_SLACK = 64

HeapEntry = tuple[Any, ...]
"""Where an id stands: what the line is ordered by, then the id itself."""


class OrderedQueue(Protocol):
    def first(self) -> HeapEntry | None:
        """Return the smallest place, or None if there is none."""

    def pop(self) -> str:
        """Take the id of the smallest place; `first` must have returned one."""


class PriorityQueue:
    """A heap whose removed places stay until they reach the front, or until they outnumber the others.

    Every step is thus O(log n) on average, and memory stays in proportion to what is in the line.
    """

    __slots__ = ("_entries", "_heap")

    def __init__(self) -> None:
        self._heap: list[HeapEntry] = []
        self._entries: dict[str, HeapEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: HeapEntry) -> None:
        """Put the id where its place is, wherever it stood before."""
        id = entry[-1]
        replaces_entry = id in self._entries
        self._entries[id] = entry
        heappush(self._heap, entry)
        if replaces_entry:
            self._rebuild_if_mostly_stale()

    def discard(self, id: str) -> None:
        if self._entries.pop(id, None) is not None:
            self._rebuild_if_mostly_stale()

    def first(self) -> HeapEntry | None:
        """Return the smallest place, or None if the line is empty."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[-1]) is entry:
                return entry
            heappop(heap)
        return None

    def pop(self) -> str:
        """Take the id of the smallest place; `first` must have returned one."""
        id: str = heappop(self._heap)[-1]
        del self._entries[id]
        return id

    def count_before(self, entry: HeapEntry, most: int) -> int:
        """Return how many places are smaller than this one, counted up to `most`.

        A place in a heap is no smaller than the one above it, so that no others are looked at, but for removed ones.
        """
        heap, entries = self._heap, self._entries
        number, ahead = 0, [0]
        while ahead and number < most:
            at = ahead.pop()
            if at < len(heap) and heap[at] < entry:
                number += entries.get(heap[at][-1]) is heap[at]
                ahead += (2 * at + 1, 2 * at + 2)
        return number

    def _rebuild_if_mostly_stale(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + REBUILD_SLACK:
            self._heap = list(self._entries.values())
            heapify(self._heap)


def pop_in_order(queues: Iterable[OrderedQueue], limit: int, until: Any = None) -> list[str]:
    """Take the first ids out of several lines in one order; with `until`, only from places that begin up to there."""
    ids: list[str] = []
    heads = [(first, queue) for queue in queues if (first := queue.first()) is not None]
    heapify(heads)
    while heads and len(ids) < limit:
        first, queue = heads[0]
        if until is not None and first[0] > until:
            break
        ids.append(queue.pop())
        if (following := queue.first()) is None:
            heappop(heads)
        else:
            heapreplace(heads, (following, queue))
    return ids
