"""A priority queue of ids, with removal from any position."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol

REBUILD_SLACK = 64

HeapEntry = tuple[Any, ...]
"""A sort key, then the id."""


class OrderedQueue(Protocol):
    def first(self) -> HeapEntry | None:
        """Return the smallest entry, or None."""

    def pop(self) -> str:
        """Remove the smallest entry and return its id; `first` must have returned an entry."""


class PriorityQueue:
    """A heap whose removed entries stay until they reach the front, or until they are the majority.

    Every step is O(log n) on average, and memory stays proportional to the number of ids.
    """

    __slots__ = ("_entries", "_heap")

    def __init__(self) -> None:
        self._heap: list[HeapEntry] = []
        self._entries: dict[str, HeapEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: HeapEntry) -> None:
        """Add an entry, and replace any earlier entry of its id."""
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
        """Return the smallest entry, or None if the queue is empty."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[-1]) is entry:
                return entry
            heappop(heap)
        return None

    def pop(self) -> str:
        """Remove the smallest entry and return its id; `first` must have returned an entry."""
        id: str = heappop(self._heap)[-1]
        del self._entries[id]
        return id

    def count_before(self, entry: HeapEntry, most: int) -> int:
        """Count the entries smaller than this entry, up to `most`.

        A child in a heap is never smaller than its parent. So only smaller entries, removed ones included, and their
        children are examined.
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
    """Remove the first ids of several queues in a common order; with `until`, only entries with a key up to it."""
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
