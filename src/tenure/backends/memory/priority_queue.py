"""A waiting line: ids in order, with removal from anywhere."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol

SLACK = 64

Place = tuple[Any, ...]
"""Where an id stands: what the line is ordered by, then the id itself."""


class Ordered(Protocol):
    def first(self) -> Place | None:
        """Return the smallest place, or None if there is none."""

    def pop(self) -> str:
        """Take the id of the smallest place; `first` must have returned one."""


class Line:
    """A heap whose removed places stay until they reach the front, or until they outnumber the others.

    Every step is thus O(log n) on average, and memory stays in proportion to what is in the line.
    """

    __slots__ = ("_heap", "_places")

    def __init__(self) -> None:
        self._heap: list[Place] = []
        self._places: dict[str, Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def put(self, place: Place) -> None:
        """Put the id where its place is, wherever it stood before."""
        id = place[-1]
        leaves_one_behind = id in self._places
        self._places[id] = place
        heappush(self._heap, place)
        if leaves_one_behind:
            self._rebuild_if_mostly_stale()

    def discard(self, id: str) -> None:
        if self._places.pop(id, None) is not None:
            self._rebuild_if_mostly_stale()

    def first(self) -> Place | None:
        """Return the smallest place, or None if the line is empty."""
        heap, places = self._heap, self._places
        while heap:
            place = heap[0]
            if places.get(place[-1]) is place:
                return place
            heappop(heap)
        return None

    def pop(self) -> str:
        """Take the id of the smallest place; `first` must have returned one."""
        id: str = heappop(self._heap)[-1]
        del self._places[id]
        return id

    def number_before(self, place: Place, most: int) -> int:
        """Return how many places are smaller than this one, counted up to `most`.

        A place in a heap is no smaller than the one above it, so that no others are looked at, but for removed ones.
        """
        heap, places = self._heap, self._places
        number, ahead = 0, [0]
        while ahead and number < most:
            at = ahead.pop()
            if at < len(heap) and heap[at] < place:
                number += places.get(heap[at][-1]) is heap[at]
                ahead += (2 * at + 1, 2 * at + 2)
        return number

    def _rebuild_if_mostly_stale(self) -> None:
        if len(self._heap) > 2 * len(self._places) + SLACK:
            self._heap = list(self._places.values())
            heapify(self._heap)


def pop_in_order(lines: Iterable[Ordered], limit: int, until: Any = None) -> list[str]:
    """Take the first ids out of several lines in one order; with `until`, only from places that begin up to there."""
    ids: list[str] = []
    heads = [(first, line) for line in lines if (first := line.first()) is not None]
    heapify(heads)
    while heads and len(ids) < limit:
        first, line = heads[0]
        if until is not None and first[0] > until:
            break
        ids.append(line.pop())
        if (following := line.first()) is None:
            heappop(heads)
        else:
            heapreplace(heads, (following, line))
    return ids
