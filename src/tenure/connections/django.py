"""Adapter for Django: `django.db.connection`, or one of `django.db.connections`."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from tenure.connections.errors import no_transaction_error, wrong_database_error
from tenure.connections.formatted import execute_with


class Connection:
    def __init__(self, connection: Any) -> None:
        # `django.db.connection` is a proxy for one connection per thread: resolve it in the caller's thread.
        self._connection: Any = (
            connection if isinstance(connection, BaseDatabaseWrapper) else connections[connection.alias]
        )

    def execute(self, text: str, request: str) -> str | None:
        if self._connection.vendor != "postgresql":
            raise wrong_database_error(self._connection.vendor)
        if not self._is_in_transaction():
            raise no_transaction_error("call this inside `with transaction.atomic():`")
        with self._connection.cursor() as cursor:
            return execute_with(cursor, text, request)

    def transaction_check(self) -> Callable[[], bool]:
        return self._has_open_transaction

    def after_commit(self, callback: Callable[[], None]) -> None:
        with suppress(TransactionManagementError):  # with autocommit off, Django calls no commit hooks
            self._connection.on_commit(callback, robust=True)

    def _is_in_transaction(self) -> bool:
        return bool(self._connection.in_atomic_block or not self._connection.get_autocommit())

    def _has_open_transaction(self) -> bool:
        # `get_autocommit` would reopen a closed connection.
        return self._connection.connection is not None and self._is_in_transaction()
