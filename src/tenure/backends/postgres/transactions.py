"""Transactions for callers, each on a dedicated session, which is kept for reuse."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tenure.backends.postgres import errors
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.connector import Connector
from tenure.backends.postgres.guarded_connection import AsyncGuardedConnection, GuardedConnection
from tenure.backends.postgres.idle_sessions import IdleSessions
from tenure.connections.loops import run_on_loop

AnyGuardedConnection = GuardedConnection | AsyncGuardedConnection


class Transactions:
    def __init__(self, address: Address, connector: Connector) -> None:
        self._address = address
        self._connector = connector
        self._idle_sessions = IdleSessions(address.connections)

    @contextmanager
    def begin(self, loop: AbstractEventLoop | None) -> Iterator[AnyGuardedConnection]:
        """Yield a dedicated connection in a transaction. Commit on exit, roll back on an exception.

        With an event loop, the connection belongs to that loop; this context manager is entered and left in another
        thread.
        """
        do = _runner(loop)
        with self._translated_errors():
            connection = self._reuse(loop) or self._connect(loop)
        try:
            with self._translated_errors():
                do(connection.begin)
            yield connection
            with self._translated_lost_commit():
                do(connection.commit_block)
        except BaseException:
            do(connection.abort)
            raise
        self._release(connection)
        for call in connection.after_commit:
            call()

    def close(self) -> None:
        self._idle_sessions.close()

    def _reuse(self, loop: AbstractEventLoop | None) -> AnyGuardedConnection | None:
        """Return a connection over an idle session that is still alive, or None."""
        while (session := self._idle_sessions.take()) is not None:
            connection = GuardedConnection(session) if loop is None else AsyncGuardedConnection(session)
            try:
                _runner(loop)(connection.reset_session)
            except psycopg.Error:
                session.finish()
            else:
                return connection
        return None

    def _connect(self, loop: AbstractEventLoop | None) -> AnyGuardedConnection:
        return self._address.connect_for_caller() if loop is None else run_on_loop(loop, self._address.connect_async())

    def _release(self, connection: AnyGuardedConnection) -> None:
        if self._connector.is_transaction_pooled:
            # Keeping it saves nothing, and a later reset would hit the session of another client.
            connection.pgconn.finish()
        else:
            self._idle_sessions.put(connection.pgconn)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as exc:
            raise errors.translate_error(self._address, exc) from exc

    @contextmanager
    def _translated_lost_commit(self) -> Iterator[None]:
        """Translate a lost commit; other errors concern the caller's statements and pass unchanged."""
        try:
            yield
        except psycopg.Error as exc:
            if errors.is_connection_lost(exc):
                raise errors.lost_commit_error(self._address, exc) from exc
            raise


def _runner(loop: AbstractEventLoop | None) -> Callable[[Callable[[], Any]], None]:
    """Return a function that runs an action directly, or on an event loop."""
    return (lambda action: action()) if loop is None else (lambda action: run_on_loop(loop, action()))
