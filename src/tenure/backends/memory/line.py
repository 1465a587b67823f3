"""A waiting line: ids in the order of their keys, with removal from anywhere."""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol

SLACK = 64


class Ordered(Protocol):
    def first(self) -> tuple[Any, str] | None:
        """Return the smallest key and its id, or None if there is none."""

    def pop(self) -> str:
        """Take the id of the smallest key; `first` must have returned one."""


class Line:
    """A heap whose removed entries stay until they reach the front, or until they outnumber the others.

    Every step is thus O(log n) on average, and memory stays in proportion to what is in the line.
    """

    __slots__ = ("_heap", "_keys")

    def __init__(self) -> None:
        self._heap: list[tuple[Any, str]] = []
        self._keys: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def put(self, id: str, key: tuple[Any, ...]) -> None:
        """Put the id where its key belongs, wherever it stood before."""
        leaves_an_entry_behind = id in self._keys
        self._keys[id] = key
        heappush(self._heap, (key, id))
        if leaves_an_entry_behind:
            self._rebuild_if_mostly_stale()

    def discard(self, id: str) -> None:
        if self._keys.pop(id, None) is not None:
            self._rebuild_if_mostly_stale()

    def first(self) -> tuple[Any, str] | None:
        """Return the smallest key and its id, or None if the line is empty."""
        heap, keys = self._heap, self._keys
        while heap:
            key, id = heap[0]
            if keys.get(id) == key:
                return key, id
            heappop(heap)
        return None

    def pop(self) -> str:
        """Take the id of the smallest key; `first` must have returned one."""
        _, id = heappop(self._heap)
        del self._keys[id]
        return id

    def _rebuild_if_mostly_stale(self) -> None:
        if len(self._heap) > 2 * len(self._keys) + SLACK:
            self._heap = [(key, id) for id, key in self._keys.items()]
            heapify(self._heap)


def in_order(lines: Iterable[Ordered]) -> Iterator[tuple[Any, str]]:
    """Yield the keys and ids of several lines in one order; each is taken out when the next is asked for."""
    heads = [(first, line) for line in lines if (first := line.first()) is not None]
    heapify(heads)
    while heads:
        first, line = heads[0]
        yield first
        line.pop()
        if (following := line.first()) is None:
            heappop(heads)
        else:
            heapreplace(heads, (following, line))
