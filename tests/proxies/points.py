"""The points between messages at which something can happen."""

from dataclasses import dataclass
from typing import Literal

from tests.proxies.wire import Message, Sender

Place = Literal["before", "within", "after"]


@dataclass(frozen=True, slots=True)
class Pattern:
    sender: Sender
    text: str
    type: str | None

    def matches(self, message: Message) -> bool:
        return (
            message.sender == self.sender
            and self.type in {None, message.type}
            and self.text.lower().encode() in message.body.lower()
        )


def from_client(text: str = "", type: str | None = None) -> Pattern:
    """Match messages of a client that contain this text, in capitals or not."""
    return Pattern("client", text, type)


def from_server(text: str = "", type: str | None = None) -> Pattern:
    """Match messages of the server that contain this text, in capitals or not."""
    return Pattern("server", text, type)


@dataclass(frozen=True, slots=True)
class Point:
    """Where something happens: before, within or after the message that is the `number`-th to match."""

    place: Place
    pattern: Pattern
    number: int


def before(pattern: Pattern, number: int = 1) -> Point:
    """The message does not pass any more."""
    return Point("before", pattern, number)


def within(pattern: Pattern, number: int = 1) -> Point:
    """One half of the message still passes."""
    return Point("within", pattern, number)


def after(pattern: Pattern, number: int = 1) -> Point:
    """The message is the last that passes."""
    return Point("after", pattern, number)
