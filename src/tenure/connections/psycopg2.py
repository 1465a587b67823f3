"""A connection of psycopg2."""

from collections.abc import Callable
from typing import Any

import psycopg2.extensions as driver

from tenure.connections.formatted import ask_with
from tenure.connections.refusals import no_transaction

IDLE, UNKNOWN = driver.TRANSACTION_STATUS_IDLE, driver.TRANSACTION_STATUS_UNKNOWN


class Connection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, text: str, asked: str) -> str | None:
        if self._connection.autocommit and not self._is_in_transaction():
            raise no_transaction("set autocommit to False, and commit afterwards")
        with self._connection.cursor(cursor_factory=driver.cursor) as cursor:
            return ask_with(cursor, text, asked)

    def in_transaction(self) -> Callable[[], bool]:
        return self._is_in_transaction

    def after_commit(self, call: Callable[[], None]) -> None:
        """It tells nobody."""

    def _is_in_transaction(self) -> bool:
        return self._connection.info.transaction_status not in {IDLE, UNKNOWN}
