"""Adapter for psycopg2 connections."""

from collections.abc import Callable
from typing import Any

import psycopg2.extensions as driver

from tenure.connections.errors import no_transaction_error
from tenure.connections.formatted import execute_with

IDLE, UNKNOWN = driver.TRANSACTION_STATUS_IDLE, driver.TRANSACTION_STATUS_UNKNOWN


class Connection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, text: str, request: str) -> str | None:
        if self._connection.autocommit and not self._is_in_transaction():
            raise no_transaction_error("set autocommit to False, and commit afterwards")
        with self._connection.cursor(cursor_factory=driver.cursor) as cursor:
            return execute_with(cursor, text, request)

    def transaction_check(self) -> Callable[[], bool]:
        return self._is_in_transaction

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Do nothing: psycopg2 has no commit hook."""

    def _is_in_transaction(self) -> bool:
        return self._connection.info.transaction_status not in {IDLE, UNKNOWN}
