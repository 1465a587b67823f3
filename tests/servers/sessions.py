"""A pool of psycopg connections for SQL in tests: connecting takes longer than most statements."""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from select import select

import psycopg
from psycopg.pq import TransactionStatus


class Sessions:
    """Idle autocommit connections by URL."""

    def __init__(self) -> None:
        self._idle: defaultdict[tuple[int, str], list[psycopg.Connection]] = defaultdict(list)

    @contextmanager
    def one(self, url: str) -> Iterator[psycopg.Connection]:
        """Yield a connection; keep the connection afterwards unless it is closed or in a transaction."""
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
"""The pool of the test process."""


@contextmanager
def by_hand(url: str) -> Iterator[psycopg.Connection]:
    """Yield a connection without session settings of earlier tests."""
    with HANDS.one(url) as connection:
        connection.prepare_threshold = None
        yield connection
        if connection.info.transaction_status is TransactionStatus.IDLE:
            connection.execute("discard all")


def _is_lost(connection: psycopg.Connection) -> bool:
    """Return whether the server has closed the connection: an idle connection is readable only then."""
    readable, _, _ = select([connection], [], [], 0)
    return bool(readable)
