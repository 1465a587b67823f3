"""Adapters for psycopg connections, sync and async."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from tenure.connections.errors import no_transaction_error


@runtime_checkable
class HasCommitCallbacks(Protocol):
    """A connection of tenure's own, which calls these functions after its commit."""

    after_commit: list[Callable[[], None]]


IDLE_IN_TRANSACTION = {TransactionStatus.INTRANS, TransactionStatus.INERROR}
OPEN = {TransactionStatus.ACTIVE, *IDLE_IN_TRANSACTION}


class Connection:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, text: str, request: str) -> str | None:
        _reject_autocommit(self._connection)
        with psycopg.RawCursor(self._connection, row_factory=tuple_row) as cursor:
            return _only_value(cursor.execute(number_placeholders(text), [request]).fetchone())

    def transaction_check(self) -> Callable[[], bool]:
        return lambda: is_in_transaction(self._connection)

    def after_commit(self, callback: Callable[[], None]) -> None:
        _register_callback(self._connection, callback)


class AsyncConnection:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def execute(self, text: str, request: str) -> str | None:
        _reject_autocommit(self._connection)
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(number_placeholders(text), [request])
            return _only_value(await cursor.fetchone())

    def transaction_check(self) -> Callable[[], bool]:
        return lambda: is_in_transaction(self._connection)

    def after_commit(self, callback: Callable[[], None]) -> None:
        _register_callback(self._connection, callback)


def is_in_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status in OPEN


def number_placeholders(text: str) -> bytes:
    return text.replace(":request", "$1").encode()


def _reject_autocommit(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if connection.autocommit and connection.info.transaction_status not in IDLE_IN_TRANSACTION:
        raise no_transaction_error("call this inside `with connection.transaction():`")


def _register_callback(connection: object, callback: Callable[[], None]) -> None:
    """Register a callback on a connection of tenure's own; other connections have no commit hook."""
    if isinstance(connection, HasCommitCallbacks):
        connection.after_commit.append(callback)


def _only_value(row: tuple[Any, ...] | None) -> str | None:
    return None if row is None else row[0]
