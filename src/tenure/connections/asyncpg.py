"""Adapter for asyncpg connections, also from a pool."""

from collections.abc import Callable
from typing import Any

from asyncpg import InterfaceError

from tenure.connections.errors import no_transaction_error


class Connection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, text: str, request: str) -> str | None:
        if not self._connection.is_in_transaction():
            raise no_transaction_error("call this inside `async with connection.transaction():`")
        value: str | None = await self._connection.fetchval(text.replace(":request", "$1"), request)
        return value

    def transaction_check(self) -> Callable[[], bool]:
        return self._is_in_transaction

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Do nothing: asyncpg has no commit hook."""

    def _is_in_transaction(self) -> bool:
        try:
            return bool(self._connection.is_in_transaction())
        except InterfaceError:  # the connection is closed, or released to its pool
            return False
