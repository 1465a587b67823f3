"""A connection of psycopg."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from tenure.connections.refusals import no_transaction


@runtime_checkable
class TellsOfItsCommit(Protocol):
    """A connection that calls these after its commit."""

    after_commit: list[Callable[[], None]]


BEGUN = {TransactionStatus.INTRANS, TransactionStatus.INERROR}
OPEN = {TransactionStatus.ACTIVE, *BEGUN}


class Connection:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def ask(self, text: str, asked: str) -> str | None:
        _refuse_autocommit(self._connection)
        with psycopg.RawCursor(self._connection, row_factory=tuple_row) as cursor:
            return _only(cursor.execute(numbered(text), [asked]).fetchone())

    def in_transaction(self) -> Callable[[], bool]:
        return lambda: is_in_transaction(self._connection)

    def after_commit(self, call: Callable[[], None]) -> None:
        _after_commit(self._connection, call)


class AsyncConnection:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def ask(self, text: str, asked: str) -> str | None:
        _refuse_autocommit(self._connection)
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(numbered(text), [asked])
            return _only(await cursor.fetchone())

    def in_transaction(self) -> Callable[[], bool]:
        return lambda: is_in_transaction(self._connection)

    def after_commit(self, call: Callable[[], None]) -> None:
        _after_commit(self._connection, call)


def is_in_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status in OPEN


def numbered(text: str) -> bytes:
    return text.replace(":asked", "$1").encode()


def _refuse_autocommit(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if connection.autocommit and connection.info.transaction_status not in BEGUN:
        raise no_transaction("use `with connection.transaction():` around this")


def _after_commit(connection: object, call: Callable[[], None]) -> None:
    """Note what to call, if it is a connection of our own; others tell nobody."""
    if isinstance(connection, TellsOfItsCommit):
        connection.after_commit.append(call)


def _only(row: tuple[Any, ...] | None) -> str | None:
    return None if row is None else row[0]
