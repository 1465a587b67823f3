"""Transactions of the caller's, each on a session of its own that is kept for the next."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tenure.backends.postgres import errors as trouble
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.connector import Sessions
from tenure.backends.postgres.guarded_connection import OneAsyncTransaction, OneTransaction
from tenure.backends.postgres.idle_sessions import Spares
from tenure.connections.loops import hop

Connection = OneTransaction | OneAsyncTransaction


class Transactions:
    def __init__(self, address: Address, sessions: Sessions) -> None:
        self._address = address
        self._sessions = sessions
        self._spares = Spares(address.connections)

    @contextmanager
    def begun(self, loop: AbstractEventLoop | None) -> Iterator[Connection]:
        """Give a connection of its own in a transaction: committed when the block is left, undone by an exception.

        With an event loop it is one for that loop, and this is entered and left in another thread.
        """
        do = _on(loop)
        with self._told():
            connection = self._used_before(loop) or self._new(loop)
        try:
            with self._told():
                do(connection.begin)
            yield connection
            with self._told_if_lost():
                do(connection.end)
        except BaseException:
            do(connection.undo)
            raise
        self._give_back(connection)
        for call in connection.after_commit:
            call()

    def close(self) -> None:
        self._spares.close()

    def _used_before(self, loop: AbstractEventLoop | None) -> Connection | None:
        """Return a connection over a session that was used before, if one is left that the server has not ended."""
        while (session := self._spares.take()) is not None:
            connection = OneTransaction(session) if loop is None else OneAsyncTransaction(session)
            try:
                _on(loop)(connection.renew)
            except psycopg.Error:
                session.finish()
            else:
                return connection
        return None

    def _new(self, loop: AbstractEventLoop | None) -> Connection:
        return self._address.connect_alone() if loop is None else hop(loop, self._address.connect_on_loop())

    def _give_back(self, connection: Connection) -> None:
        if self._sessions.are_lent:
            # Nothing would be saved, and to renew it would be to renew the session of somebody else.
            connection.pgconn.finish()
        else:
            self._spares.give_back(connection.pgconn)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as exc:
            raise trouble.told(self._address, exc) from exc

    @contextmanager
    def _told_if_lost(self) -> Iterator[None]:
        """Tell in our own words that a commit was not answered; what else is said is about the caller's work."""
        try:
            yield
        except psycopg.Error as exc:
            if trouble.is_lost(exc):
                raise trouble.unanswered_commit(self._address, exc) from exc
            raise


def _on(loop: AbstractEventLoop | None) -> Callable[[Callable[[], Any]], None]:
    """Return what does something at once, or on an event loop."""
    return (lambda action: action()) if loop is None else (lambda action: hop(loop, action()))
