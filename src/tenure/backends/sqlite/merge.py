"""Merge several sorted index ranges, and return the first rows.

A range is the part of an index for one queue and type, or one queue and state; the last two columns of a row name its
range. The merge begins with only the first row of each range. It opens a range when that row is taken, and reads no
further than needed. The cost is thus the number of ranges plus the number of rows taken.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from heapq import heapify, heappop, heapreplace
from itertools import islice

from tenure.backends.sqlite.rows import SqlRow

OpenRange = Callable[[str, str], sqlite3.Cursor]
"""Returns a cursor at the beginning of the range with these two names."""


def merge_first(heads: Iterable[SqlRow], open_range: OpenRange, limit: int) -> list[SqlRow]:
    """Return the first `limit` rows of all ranges, given the first row of each range."""
    with closing(_merge(list(heads), open_range)) as rows:
        return list(islice(rows, limit))


def _merge(heads: list[SqlRow], open_range: OpenRange) -> Generator[SqlRow]:
    opened: dict[tuple[str, str], sqlite3.Cursor] = {}
    heapify(heads)
    try:
        while heads:
            row = heads[0]
            yield row
            *_, first, second = row
            if (cursor := opened.get((first, second))) is None:
                cursor = opened[first, second] = open_range(first, second)
                next(cursor)  # the head itself
            if len(heads) == 1:
                yield from cursor
                return
            following = next(cursor, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, following)
    finally:
        # An open cursor would keep reading after the transaction.
        for cursor in opened.values():
            cursor.close()
