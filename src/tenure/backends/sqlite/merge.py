"""The first rows of several lines, in one order.

A line is what an index holds for one queue and type, or one queue and state; the last two columns of a row name its
line. Of each line only the first row is known at the beginning: a line is opened when that is taken, and read no
further than needed. So the cost is that of the lines plus that of the rows taken.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Any

Row = tuple[Any, ...]
OpenLine = Callable[[str, str], sqlite3.Cursor]
"""Returns the line of these two names from its beginning."""


def first_of(heads: Iterable[Row], open_line: OpenLine, limit: int) -> list[Row]:
    """Return the first rows of all lines, given the first of each."""
    with closing(_in_order(list(heads), open_line)) as rows:
        return list(islice(rows, limit))


def _in_order(heads: list[Row], open_line: OpenLine) -> Generator[Row]:
    opened: dict[tuple[str, str], sqlite3.Cursor] = {}
    heapify(heads)
    try:
        while heads:
            row = heads[0]
            yield row
            *_, first, second = row
            if (line := opened.get((first, second))) is None:
                line = opened[first, second] = open_line(first, second)
                next(line)  # the head itself
            if len(heads) == 1:
                yield from line
                return
            following = next(line, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, following)
    finally:
        # An open cursor would go on reading after the transaction.
        for line in opened.values():
            line.close()
