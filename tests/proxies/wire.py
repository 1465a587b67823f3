"""What a proxy has to know of a protocol: where a message ends, and what it is."""

from asyncio import StreamReader
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Sender = Literal["client", "server"]


class Message(Protocol):
    @property
    def sender(self) -> Sender: ...

    @property
    def type(self) -> str:
        """What kind of message it is, in the words of the protocol."""

    @property
    def body(self) -> bytes:
        """What it says."""

    @property
    def octets(self) -> bytes:
        """The whole of it, as it passes."""

    @property
    def own_answer(self) -> bytes | None:
        """What the proxy itself says to a client that begins with this; None if it is meant for the server."""


@dataclass(frozen=True, slots=True)
class Wire:
    """How the first message of a client is read, and any other. None is read when there will be no more."""

    first_message: Callable[[StreamReader], Awaitable[Message | None]]
    next_message: Callable[[StreamReader, Sender], Awaitable[Message | None]]
