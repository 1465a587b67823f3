"""The connection pool of a process. One thread uses a connection at a time.

Driver errors pass through unchanged.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tenure.backends.redis import errors
from tenure.backends.redis.address import Address
from tenure.backends.redis.connection import RedisConnection
from tenure.backends.shared import forking
from tenure.backends.shared.checkout import Checkout, CheckoutLimit


class Pool:
    def __init__(self, address: Address, connect: Callable[[], RedisConnection]) -> None:
        self._address = address
        self._connect = connect
        self._reset()
        forking.register(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[RedisConnection] = []
        self._checkout_limit: CheckoutLimit[RedisConnection] = CheckoutLimit(self._address.connections)
        self.generation = 0
        self._is_closed = False
        self.has_connected = False

    @contextmanager
    def connection(self) -> Iterator[RedisConnection]:
        """Check out a connection for exclusive use; wait while all connections are in use."""
        checkout: Checkout[RedisConnection] = Checkout()
        try:
            if not self._checkout_limit.acquire_within(self._address.timeout, checkout):
                raise errors.pool_exhausted(self._address)
            generation = self.generation
            checkout.connection = self._take()
            try:
                yield checkout.connection
            finally:
                self._return(checkout.connection, generation)
        finally:
            self._checkout_limit.release(checkout)

    def discard_connections(self) -> None:
        """Discard all connections, the used ones on their return: the server may no longer serve the store."""
        with self._lock:
            self.generation += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        self._is_closed = True
        self.discard_connections()

    def after_fork_in_child(self) -> None:
        """Reset: the connections belong to the parent."""
        forking.abandon([*self._idle, *self._checkout_limit.checkouts])
        self._reset()

    def _take(self) -> RedisConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
                self.has_connected = True
                return connection
            if connection.is_usable():
                return connection
            connection.close()

    def _return(self, connection: RedisConnection, generation: int) -> None:
        with self._lock:
            is_kept = connection.is_open and generation == self.generation and not self._is_closed
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
