"""A connection that sends requests and reads responses."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from redis.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from tenure.backends.redis.address import Node
from tenure.backends.redis.encoding import Argument

T = TypeVar("T")


class RedisConnection:
    """A connection for one thread at a time. Any error except an error response of the server closes it."""

    def __init__(self, connection: AbstractConnection, node: Node | None = None) -> None:
        self._connection = connection
        self.is_open = True
        self.node = node

    def execute(self, request: bytes) -> Any:
        """Send a request and return the response."""
        # Closed until the response is read: a leftover response would be taken for that of the next request. An
        # interrupt may strike even during `close`.
        self.is_open = False
        try:
            self._connection.send_packed_command((request,), check_health=False)
            response = self._connection.read_response()
        except ResponseError:
            self.is_open = True
            raise
        except BaseException:
            self.close()
            raise
        self.is_open = True
        return response

    def execute_pipelined(self, first: bytes, second: Callable[[], bytes], read: Callable[[Any], T]) -> tuple[T, Any]:
        """Send two requests. Return the first response, decoded by `read`, and the second response.

        The client builds the second request while the server runs the first, and decodes the first response while the
        server runs the second.
        """
        self.is_open = False
        try:
            self._connection.send_packed_command((first,), check_health=False)
            self._connection.send_packed_command((second(),), check_health=False)
            responses = read(self._connection.read_response()), self._connection.read_response()
        except BaseException:
            self.close()
            raise
        self.is_open = True
        return responses

    def send(self, request: bytes) -> None:
        """Send a request whose response arrives among the messages."""
        self._connection.send_packed_command((request,), check_health=False)

    def read_messages(self) -> list[Any]:
        """Return the messages that have arrived."""
        messages = []
        while self._connection.can_read(0):
            messages.append(self._connection.read_response())
        return messages

    def fileno(self) -> int:
        sock: Any = self._connection._sock  # noqa: SLF001 - the driver has no other way to poll several sockets
        return int(sock.fileno())

    def is_usable(self) -> bool:
        """Return whether the connection is open and has no unread data."""
        if not self.is_open:
            return False
        # Unread data on an idle connection means that the server closes it.
        try:
            return not self._connection.can_read(0)
        except (RedisError, OSError):
            return False

    def close(self) -> None:
        self.is_open = False
        with suppress(RedisError, OSError):
            self._connection.disconnect()


def pack_request(parts: Sequence[Argument]) -> bytes:
    """Encode a request."""
    return b"*%d\r\n%b" % (len(parts), pack_parts(parts))


def pack_parts(parts: Sequence[Argument]) -> bytes:
    """Encode the parts of a request."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in encoded])
