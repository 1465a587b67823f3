"""Run scripts on the server, and retry after errors.

An operation is one script and one round trip. `Server` retries an operation on another connection if the server did
nothing, or if the response was lost and the operation is idempotent.
"""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, TypeVar

from redis.exceptions import RedisError, ResponseError

from tenure.backends.protocol import StoreClock
from tenure.backends.redis import errors
from tenure.backends.redis.address import Address, Node
from tenure.backends.redis.cluster import Cluster
from tenure.backends.redis.connection import RedisConnection, pack_parts, pack_request
from tenure.backends.redis.durability import ServerCheck
from tenure.backends.redis.encoding import Argument
from tenure.backends.redis.pool import Pool
from tenure.backends.redis.script import Script

ASKING_REQUEST = pack_request(["ASKING"])

SHORTEST_RETRY_DELAY, LONGEST_RETRY_DELAY = 0.01, 0.5


T = TypeVar("T")

ScriptCall = tuple[Script, Sequence[Argument]]
"""A script and its arguments."""


class Server:
    def __init__(self, address: Address, *, clock: StoreClock | None) -> None:
        self.address = address
        self._clock = clock
        self._cluster = Cluster(address) if address.nodes else None
        self._check = ServerCheck(address)
        self._pool = Pool(address, self.connect)
        self._evalsha_prefixes: dict[str, bytes] = {}

    def now(self) -> datetime | None:
        """Return the time set by a test; None to use the server's clock."""
        return None if self._clock is None else self._clock()

    def run(self, script: Script, arguments: Sequence[Argument], *, may_repeat: bool = True) -> Any:
        """Run a script and return its result."""
        ends_at = time.monotonic() + self.address.timeout
        pause = SHORTEST_RETRY_DELAY
        while True:
            connection: RedisConnection | None = None
            try:
                with self._pool.connection() as connection:
                    return self._run_on(connection, script, arguments)
            except (RedisError, OSError) as exc:
                if connection is not None:
                    self._handle_error(exc, connection.node)
                is_safe = may_repeat or connection is None or errors.is_not_executed(exc)
                # The server may be restarting. Without any earlier connection, raise at once.
                may_retry = is_safe and errors.is_transient(exc) and self._pool.has_connected
                if not may_retry or time.monotonic() >= ends_at:
                    raise errors.translate_error(self.address, exc, was_connected=connection is not None) from exc
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_RETRY_DELAY)

    def run_pipelined(
        self, first: ScriptCall, second: Callable[[], ScriptCall], read: Callable[[Any], T]
    ) -> tuple[T, Any] | None:
        """Run two scripts in one round trip. Return the result of the first, decoded by `read`, and of the second.

        Return None after an error; then either script may have run or not.
        """
        connection: RedisConnection | None = None
        try:
            with self._pool.connection() as connection:
                return connection.execute_pipelined(self._evalsha(*first), lambda: self._evalsha(*second()), read)
        except (RedisError, OSError) as exc:
            if connection is not None:
                self._handle_error(exc, connection.node)
            return None

    @property
    def generation(self) -> int:
        """A number that changes when existing connections may lead to the wrong server."""
        return self._pool.generation

    def connect(self) -> RedisConnection:
        """Open a connection to the server of the store. The caller closes it."""
        try:
            return self._connect()
        except (RedisError, OSError) as exc:
            self._handle_error(exc, None)
            raise

    def close(self) -> None:
        self._pool.close()

    def _connect(self) -> RedisConnection:
        connection = RedisConnection(self.address.connect()) if self._cluster is None else self._cluster.connect()
        try:
            self._check.check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _handle_error(self, error: Exception, node: Node | None) -> None:
        """Make the next connection lead to the server that serves the store now."""
        if not errors.is_transient(error):
            return
        if errors.is_wrong_server(error) or errors.is_timeout(error):
            self._pool.discard_connections()
        if self._cluster is not None:
            self._cluster.handle_error(error, node)

    def _run_on(self, connection: RedisConnection, script: Script, arguments: Sequence[Argument]) -> Any:
        try:
            return connection.execute(self._evalsha(script, arguments))
        except ResponseError as exc:
            code = errors.code_of(exc)
            if code == "NOSCRIPT":
                # The server does not have the script in its cache. EVAL runs and caches it.
                return connection.execute(self._eval(script, arguments))
            if code in {"ASK", "MOVED"} and connection.node is None:
                raise errors.translate_error(self.address, exc, was_connected=True) from exc
            if code == "ASK" and connection.node is not None:
                return self._run_at(errors.redirect_target(exc, connection.node), self._eval(script, arguments))
            raise

    def _run_at(self, node: Node, request: bytes) -> Any:
        """Send one request to the node that is taking over the slot."""
        with closing(RedisConnection(self.address.connect(node), node)) as connection:
            connection.execute(ASKING_REQUEST)
            return connection.execute(request)

    def _evalsha(self, script: Script, arguments: Sequence[Argument]) -> bytes:
        count = 3 + len(script.keys) + len(arguments)
        return b"*%d\r\n%b%b" % (count, self._evalsha_prefix(script), pack_parts(arguments))

    def _evalsha_prefix(self, script: Script) -> bytes:
        """Return the constant part of the EVALSHA request of a script."""
        if script.sha not in self._evalsha_prefixes:
            self._evalsha_prefixes[script.sha] = pack_parts(
                ["EVALSHA", script.sha, len(script.keys), *self._keys_of(script)]
            )
        return self._evalsha_prefixes[script.sha]

    def _eval(self, script: Script, arguments: Sequence[Argument]) -> bytes:
        return pack_request(["EVAL", script.text, len(script.keys), *self._keys_of(script), *arguments])

    def _keys_of(self, script: Script) -> list[str]:
        return [self.address.key(name) for name in script.keys]
