"""Run transactions on the server, and retry them.

An operation is one transaction and, unless the client has to decide between statements, one round trip. If the
connection breaks before the response arrives, a repeatable operation is retried on a new connection; repeating it has
no further effect.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from tenure.backends.postgres import errors
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.connector import Connector
from tenure.backends.postgres.migrations import Migrations
from tenure.backends.postgres.pipeline import COMMIT, BoundQuery, PipelineConnection
from tenure.backends.postgres.pool import Pool
from tenure.backends.postgres.statements import Statements, request_form, sql_in, statements_in
from tenure.backends.postgres.transactions import Transactions
from tenure.backends.protocol import StoreClock
from tenure.connections.caller import CallerConnection, adapt_connection
from tenure.connections.errors import CallerError
from tenure.core.operations import Schema

T = TypeVar("T")

Execute = Callable[[Sequence[BoundQuery]], list[Any]]
"""Sends queries to the server and returns the result of each."""

MOST_CONFLICTS = 10
"""How often a transaction runs, at most, if the server aborts it because of a concurrent transaction."""

SHORTEST_RETRY_DELAY, LONGEST_RETRY_DELAY = 0.01, 0.5


class Database:
    """The connections of one `Jobs` or `Table`. A bare address skips the schema of the store."""

    def __init__(self, address: Address, *, clock: StoreClock | None) -> None:
        self.address = address
        self.statements = statements_in(address.schema)
        self.sql = sql_in(address.schema)
        self._clock = clock
        self.connector = Connector(address)
        self._migrations = Migrations(address, self.connector)
        self._pool = Pool(address, self.connector, self._migrations, limit=address.connections)
        # Operations that use all connections of the pool must not cost a lease.
        self._lease_pool = Pool(address, self.connector, self._migrations, limit=1)
        self.transactions = Transactions(address, self.connector)
        self._identity: str | None = None

    def statements_for(self, queues: Sequence[str] | None, types: Sequence[str] | None) -> Statements:
        """Return the statements for a request of these queues and types; None means all."""
        return statements_in(self.address.schema, request_form(queues, types))

    def now(self) -> datetime | None:
        """Return the time set by a test, or None to use the server's clock."""
        return None if self._clock is None else self._clock()

    def execute(
        self,
        queries: Sequence[BoundQuery],
        *,
        may_repeat: bool = True,
        is_unique_checked: bool = False,
        is_for_leases: bool = False,
    ) -> list[Any]:
        """Run queries in one transaction and one round trip; return their results.

        `is_unique_checked`: see `errors.is_conflict`. `is_for_leases`: do not wait while all connections are in use.
        """

        def in_one_round_trip() -> list[Any]:
            with self._lease_connection() if is_for_leases else self._pool.connection() as connection:
                return _query_results(connection, connection.execute(_with_commit(connection, queries)))

        return self._retry(in_one_round_trip, may_repeat=may_repeat, is_unique_checked=is_unique_checked)

    def execute_concurrently(
        self, first: Sequence[BoundQuery], second: Sequence[BoundQuery]
    ) -> tuple[list[Any], list[Any]]:
        """Run two lists of queries in two concurrent transactions, or in one if no second connection is free.

        Both lists must be repeatable.
        """

        def side_by_side() -> tuple[list[Any], list[Any]]:
            with self._pool.connection() as connection, self._pool.spare_connection() as spare:
                if spare is None:
                    results = _query_results(
                        connection, connection.execute(_with_commit(connection, [*first, *second]))
                    )
                    return results[: len(first)], results[len(first) :]
                connection.send(_with_commit(connection, first))
                spare.send(_with_commit(spare, second))
                try:
                    results = _query_results(connection, connection.receive())
                finally:
                    # Drain the second connection: its claim must not still run when both lists are retried.
                    spare_results = _query_results(spare, spare.receive())
                return results, spare_results

        return self._retry(side_by_side, may_repeat=True)

    def transact(self, callback: Callable[[Execute], T], *, may_repeat: bool = True) -> T:
        """Run a callback inside a transaction and return the callback's result.

        The callback gets a function that sends queries. A retry calls the callback again from the start.
        """

        def in_a_transaction() -> T:
            with self._pool.connection() as connection:
                connection.execute(connection.opening)
                result = callback(connection.execute)
                connection.execute([BoundQuery(COMMIT)])
                return result

        return self._retry(in_a_transaction, may_repeat=may_repeat, is_unique_checked=True)

    def identity(self) -> str:
        """Return the identity of the store; the first call also ensures that its schema exists."""
        if self._identity is None:
            (self._identity,) = self.execute([BoundQuery(self.statements["caller_transaction"]["store"])])
        return str(self._identity)

    def is_transaction_open(self, transaction_id: str) -> bool:
        """Return whether the transaction with this id, of any session, is still open."""
        (is_open,) = self.execute(
            [BoundQuery(self.statements["caller_transaction"]["is open"], {"number": transaction_id})]
        )
        return bool(is_open)

    def reset_identity(self) -> None:
        """Drop the cached identity: the store may have been recreated."""
        self._identity = None

    @contextmanager
    def caller_connection(self, connection: object, missing: str | None = None) -> Iterator[CallerConnection]:
        """Wrap the caller's connection. Translate the server errors that have a remedy; let others pass.

        `missing` describes the missing object in the error message; the default is the store itself.
        """
        try:
            yield adapt_connection(connection)
        except CallerError as exc:
            raise exc.error from exc.error.__cause__
        except Exception as exc:
            translated = errors.translate_caller_error(self.address, exc, missing)
            if translated is None:
                raise
            raise translated from exc

    def migrate(self) -> Schema:
        """Migrate the schema, even with `migrate=never` in the URL."""
        with self._translated_errors():
            return self._migrations.apply()

    def outstanding(self) -> str:
        """Return the SQL that `migrate` would run."""
        with self._translated_errors():
            return self._migrations.outstanding()

    def close(self) -> None:
        self.transactions.close()
        self._pool.close()
        self._lease_pool.close()

    @contextmanager
    def _lease_connection(self) -> Iterator[PipelineConnection]:
        """Yield a free connection, or the connection reserved for leases if all others are in use."""
        with self._pool.spare_connection() as spare:
            if spare is not None:
                yield spare
                return
        with self._lease_pool.connection() as connection:
            yield connection

    def _retry(self, action: Callable[[], T], *, may_repeat: bool, is_unique_checked: bool = False) -> T:
        ends_at = time.monotonic() + self.address.timeout
        collisions = 0
        pause = SHORTEST_RETRY_DELAY
        while True:
            try:
                return action()
            except (psycopg.Error, OSError) as exc:
                if errors.is_prepared_statement_error(exc):
                    self._pool.disable_prepare()
                    self._lease_pool.disable_prepare()
                collisions += 1
                # The server may be restarting. If no connection ever succeeded, raise at once.
                may_retry = (
                    errors.is_connection_lost(exc)
                    and may_repeat
                    and (self._pool.has_connected or self._lease_pool.has_connected)
                    and time.monotonic() < ends_at
                )
                is_conflict = errors.is_conflict(exc, is_unique_checked=is_unique_checked)
                if not may_retry and not (is_conflict and collisions < MOST_CONFLICTS):
                    raise errors.translate_error(self.address, exc) from exc
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_RETRY_DELAY)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as exc:
            raise errors.translate_error(self.address, exc) from exc


def _with_commit(connection: PipelineConnection, queries: Sequence[BoundQuery]) -> list[BoundQuery]:
    return [*connection.opening, *queries, BoundQuery(COMMIT)]


def _query_results(connection: PipelineConnection, results: list[Any]) -> list[Any]:
    """Return the results of the queries between the opening and the commit."""
    return results[len(connection.opening) : -1]
