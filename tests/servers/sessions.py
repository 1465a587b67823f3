"""Sessions for what tests do by hand: kept, as to begin one takes longer than most statements."""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from select import select

import psycopg
from psycopg.pq import TransactionStatus


class Sessions:
    """Those that nobody uses just now, by URL; each commits what it does at once."""

    def __init__(self) -> None:
        self._idle: defaultdict[tuple[int, str], list[psycopg.Connection]] = defaultdict(list)

    @contextmanager
    def one(self, url: str) -> Iterator[psycopg.Connection]:
        """Give a session; afterwards it is kept, unless it is in a transaction or lost."""
        idle = self._idle[os.getpid(), url]
        while idle and _is_lost(idle[-1]):
            idle.pop().close()
        connection = idle.pop() if idle else psycopg.connect(url, autocommit=True)
        try:
            yield connection
        finally:
            if connection.info.transaction_status is TransactionStatus.IDLE:
                idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        for (process, _), connections in self._idle.items():
            for each in connections:
                if process == os.getpid():
                    each.close()
        self._idle.clear()


HANDS = Sessions()
"""Those of all tests of a process."""


@contextmanager
def by_hand(url: str) -> Iterator[psycopg.Connection]:
    """Give a session on which nothing is set, whatever others did on it."""
    with HANDS.one(url) as connection:
        connection.prepare_threshold = None
        yield connection
        if connection.info.transaction_status is TransactionStatus.IDLE:
            connection.execute("discard all")


def _is_lost(connection: psycopg.Connection) -> bool:
    """Tell whether the server has ended it: to who has asked nothing it says nothing else."""
    readable, _, _ = select([connection], [], [], 0)
    return bool(readable)
