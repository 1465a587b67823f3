"""Points in a message stream at which a proxy acts."""

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
    """Match client messages that contain the text, ignoring case."""
    return Pattern("client", text, type)


def from_server(text: str = "", type: str | None = None) -> Pattern:
    """Match server messages that contain the text, ignoring case."""
    return Pattern("server", text, type)


@dataclass(frozen=True, slots=True)
class Point:
    """A point before, within or after the `number`-th matching message."""

    place: Place
    pattern: Pattern
    number: int


def before(pattern: Pattern, number: int = 1) -> Point:
    """Act before the message: the proxy does not forward it."""
    return Point("before", pattern, number)


def within(pattern: Pattern, number: int = 1) -> Point:
    """Act within the message: the proxy forwards its first half."""
    return Point("within", pattern, number)


def after(pattern: Pattern, number: int = 1) -> Point:
    """Act after the message: the proxy forwards it and then acts."""
    return Point("after", pattern, number)
