"""The parts of a protocol that a proxy needs: framing and message types."""

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
        """The message type, as the protocol names it."""

    @property
    def body(self) -> bytes:
        """The content of the message."""

    @property
    def octets(self) -> bytes:
        """The complete message as sent."""

    @property
    def own_answer(self) -> bytes | None:
        """The response of the proxy itself to a first message; None to forward the message."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Functions that read the first message of a client and all further messages. None means end of stream."""

    first_message: Callable[[StreamReader], Awaitable[Message | None]]
    next_message: Callable[[StreamReader, Sender], Awaitable[Message | None]]
