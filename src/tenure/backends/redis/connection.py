"""A connection on which a request is sent, and its answer read."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from redis.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from tenure.backends.redis.address import Node

T = TypeVar("T")

Argument = str | bytes | int


class Wire:
    """One connection; one thread uses it at a time. After an error other than the server's own it is closed."""

    def __init__(self, connection: AbstractConnection, node: Node | None = None) -> None:
        self._connection = connection
        self.is_open = True
        self.node = node

    def ask(self, request: bytes) -> Any:
        """Send a request, and return what the server answers."""
        # An answer that is left in it would be taken for that of the next. Closing it may be interrupted as well.
        self.is_open = False
        try:
            self._connection.send_packed_command((request,), check_health=False)
            answer = self._connection.read_response()
        except ResponseError:
            self.is_open = True
            raise
        except BaseException:
            self.close()
            raise
        self.is_open = True
        return answer

    def ask_both(self, first: bytes, second: Callable[[], bytes], read: Callable[[Any], T]) -> tuple[T, Any]:
        """Send two requests, and return what the first answers, as it is read, and what the second does.

        The second is made while the server does the first, and the first is read while it does the second.
        """
        self.is_open = False
        try:
            self._connection.send_packed_command((first,), check_health=False)
            self._connection.send_packed_command((second(),), check_health=False)
            answers = read(self._connection.read_response()), self._connection.read_response()
        except BaseException:
            self.close()
            raise
        self.is_open = True
        return answers

    def send(self, request: bytes) -> None:
        """Send a request whose answer is heard among what the server says by itself."""
        self._connection.send_packed_command((request,), check_health=False)

    def heard(self) -> list[Any]:
        """Return what the server has said by itself."""
        said = []
        while self._connection.can_read(0):
            said.append(self._connection.read_response())
        return said

    def fileno(self) -> int:
        sock: Any = self._connection._sock  # noqa: SLF001 - the driver has no other way to wait for this and more
        return int(sock.fileno())

    def is_usable(self) -> bool:
        """Tell whether it may be used again: open, and with nothing to say that nobody asked for."""
        if not self.is_open:
            return False
        # The server speaks first only when it ends the connection.
        try:
            return not self._connection.can_read(0)
        except (RedisError, OSError):
            return False

    def close(self) -> None:
        self.is_open = False
        with suppress(RedisError, OSError):
            self._connection.disconnect()


def packed(parts: Sequence[Argument]) -> bytes:
    """Return a request as it is sent."""
    return b"*%d\r\n%b" % (len(parts), pieces(parts))


def pieces(parts: Sequence[Argument]) -> bytes:
    """Return parts of a request as they are sent."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in encoded])
