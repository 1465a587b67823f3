"""A pool of connections; one thread uses a connection at a time.

Driver errors pass through untranslated.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tenure.backends.postgres import errors
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.connector import Connector
from tenure.backends.postgres.migrations import Migrations
from tenure.backends.postgres.pipeline import ROLLBACK, BoundQuery, PipelineConnection
from tenure.backends.shared import forking
from tenure.backends.shared.checkout import Checkout, CheckoutLimit


class Pool:
    def __init__(self, address: Address, connector: Connector, migrations: Migrations, *, limit: int) -> None:
        self._address = address
        self._limit = limit
        self._connector = connector
        self._migrations = migrations
        self._reset()
        forking.register(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[PipelineConnection] = []
        self._checkout_limit: CheckoutLimit[PipelineConnection] = CheckoutLimit(self._limit)
        self._is_closed = False
        self.has_connected = False

    @contextmanager
    def connection(self) -> Iterator[PipelineConnection]:
        """Yield a connection for exclusive use; wait if all are in use."""
        checkout: Checkout[PipelineConnection] = Checkout()
        try:
            if not self._checkout_limit.acquire_within(self._address.timeout, checkout):
                raise errors.pool_exhausted_error(self._address, self._limit)
            checkout.connection = self._take()
            with self._in_use(checkout) as connection:
                yield connection
        finally:
            self._checkout_limit.release(checkout)

    @contextmanager
    def spare_connection(self) -> Iterator[PipelineConnection | None]:
        """Yield a second connection, or None if none is free. Waiting while holding the first could deadlock."""
        checkout: Checkout[PipelineConnection] = Checkout()
        try:
            if self._checkout_limit.try_acquire(checkout) and self._try_take(checkout):
                with self._in_use(checkout) as connection:
                    yield connection
            else:
                yield None
        finally:
            self._checkout_limit.release(checkout)

    def disable_prepare(self) -> None:
        """Stop using prepared statements: a transaction pooler is handing us different sessions."""
        self._connector.disable_prepare()
        self._close_idle()

    def close(self) -> None:
        self._is_closed = True
        self._close_idle()

    def after_fork_in_child(self) -> None:
        """Start with an empty pool: the connections belong to the parent."""
        forking.abandon([*self._idle, *self._checkout_limit.checkouts])
        self._reset()

    @contextmanager
    def _in_use(self, checkout: Checkout[PipelineConnection]) -> Iterator[PipelineConnection]:
        try:
            yield checkout.connection
        finally:
            self._return(checkout.connection)

    def _try_take(self, checkout: Checkout[PipelineConnection]) -> bool:
        try:
            checkout.connection = self._take()
        except (psycopg.Error, OSError):  # the server may be at its connection limit
            return False
        return True

    def _take(self) -> PipelineConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect()
            if connection.is_usable():
                return connection
            connection.close()

    def _connect(self) -> PipelineConnection:
        connection = self._connector.connect()
        try:
            self._migrations.ensure_migrated(connection)
            pipeline = self._connector.pipeline(connection)
        except BaseException:
            connection.close()
            raise
        self.has_connected = True
        return pipeline

    def _return(self, connection: PipelineConnection) -> None:
        if connection.is_open and not connection.is_usable():
            try:
                connection.execute([BoundQuery(ROLLBACK)])
            except psycopg.Error:
                connection.close()
        with self._lock:
            is_kept = (
                connection.is_usable()
                and connection.uses_prepare is self._connector.uses_prepare
                and not self._is_closed
            )
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
