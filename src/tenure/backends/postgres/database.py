"""The server as this process has it open, and what is done when it does not answer.

An operation is one transaction and, if nothing has to be decided in between, one round trip. It is done again, on
another connection, if its answer was lost and it may be repeated: such requests change nothing twice.
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
from tenure.connections.refusals import CallerError
from tenure.core.operations import Schema

T = TypeVar("T")

Execute = Callable[[Sequence[BoundQuery]], list[Any]]
"""Sends steps to the server, and returns what each answers."""

MOST_CONFLICTS = 10
"""How often a transaction that the server gave up for another's sake is tried again."""

SHORTEST_RETRY_DELAY, LONGEST_RETRY_DELAY = 0.01, 0.5


class Database:
    """The connections of one handle. If it is bare, it looks for no tables of ours: the user's own are what counts."""

    def __init__(self, address: Address, *, clock: StoreClock | None) -> None:
        self.address = address
        self.statements = statements_in(address.schema)
        self.sql = sql_in(address.schema)
        self._clock = clock
        self.connector = Connector(address)
        self._migrations = Migrations(address, self.connector)
        self._pool = Pool(address, self.connector, self._migrations)
        self.transactions = Transactions(address, self.connector)
        self._identity: str | None = None

    def statements_for(self, queues: Sequence[str] | None, types: Sequence[str] | None) -> Statements:
        """Return the statements for those who ask for these queues and types; None is all."""
        return statements_in(self.address.schema, request_form(queues, types))

    def now(self) -> datetime | None:
        """Return the moment that a test has set; None if the server's clock counts."""
        return None if self._clock is None else self._clock()

    def execute(self, queries: Sequence[BoundQuery], *, may_repeat: bool = True) -> list[Any]:
        """Do these statements in one transaction and one round trip; return what each answers."""

        def in_one_round_trip() -> list[Any]:
            with self._pool.connection() as connection:
                return _query_results(connection, connection.execute(_with_commit(connection, queries)))

        return self._retry(in_one_round_trip, may_repeat=may_repeat)

    def execute_concurrently(
        self, first: Sequence[BoundQuery], second: Sequence[BoundQuery]
    ) -> tuple[list[Any], list[Any]]:
        """Do these in two transactions at the same time, or in one if there is no connection to spare.

        Both must be such as may be repeated.
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
                    # It must not be claiming still when all of this is asked again.
                    spare_results = _query_results(spare, spare.receive())
                return results, spare_results

        return self._retry(side_by_side, may_repeat=True)

    def transact(self, callback: Callable[[Execute], T], *, may_repeat: bool = True) -> T:
        """Do something that has to be decided in between, in one transaction; return what it returns.

        It gets a function that asks the server, and it may be called again from the beginning.
        """

        def in_a_transaction() -> T:
            with self._pool.connection() as connection:
                connection.execute(connection.opening)
                result = callback(connection.execute)
                connection.execute([BoundQuery(COMMIT)])
                return result

        return self._retry(in_a_transaction, may_repeat=may_repeat)

    def identity(self) -> str:
        """Return which store this is; its schema is there then."""
        if self._identity is None:
            (self._identity,) = self.execute([BoundQuery(self.statements["caller_transaction"]["store"])])
        return str(self._identity)

    def is_transaction_open(self, transaction_id: str) -> bool:
        """Tell whether a transaction of this number goes on, whoever's it is."""
        (is_open,) = self.execute(
            [BoundQuery(self.statements["caller_transaction"]["is open"], {"number": transaction_id})]
        )
        return bool(is_open)

    def reset_identity(self) -> None:
        """Ask anew when it is next asked for: the store may have been made anew."""
        self._identity = None

    @contextmanager
    def caller_connection(self, connection: object, missing: str | None = None) -> Iterator[CallerConnection]:
        """Give a connection of the caller's as it is used here. What it raises goes on, unless it can be explained.

        `lacking` says what is not there, if that is no store.
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
        """Bring the schema up to date, whatever the URL says about that."""
        with self._translated_errors():
            return self._migrations.apply()

    def outstanding(self) -> str:
        """Return what `migrate` would do, as SQL."""
        with self._translated_errors():
            return self._migrations.outstanding()

    def close(self) -> None:
        self.transactions.close()
        self._pool.close()

    def _retry(self, action: Callable[[], T], *, may_repeat: bool) -> T:
        ends_at = time.monotonic() + self.address.timeout
        collisions = 0
        pause = SHORTEST_RETRY_DELAY
        while True:
            try:
                return action()
            except (psycopg.Error, OSError) as exc:
                if errors.is_prepared_statement_error(exc):
                    self._pool.disable_prepare()
                collisions += 1
                # It may be restarting; but one that was never there is told about at once.
                is_worth_it = (
                    errors.is_connection_lost(exc)
                    and may_repeat
                    and self._pool.has_connected
                    and time.monotonic() < ends_at
                )
                if not is_worth_it and not (errors.is_conflict(exc) and collisions < MOST_CONFLICTS):
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
    """Return what the steps between opening and commit answer."""
    return results[len(connection.opening) : -1]
