"""The orders of a proxy and the messages that it has seen, without sockets."""

import threading
from dataclasses import dataclass, field

from tests.proxies.points import Point
from tests.proxies.wire import Message

PATIENCE = 120.0
"""Seconds after which a wait fails."""


class Order:
    """An action that a proxy takes once, at a point."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self._left = point.number
        self._done = threading.Event()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        """Wait until the order has been carried out."""
        assert self._done.wait(PATIENCE), f"{self.point} was not reached within {PATIENCE:g} s"

    def mark_done(self) -> None:
        self._done.set()

    def count(self, message: Message) -> bool:
        """Count the message if it matches; return whether the point is reached."""
        if not self.point.pattern.matches(message):
            return False
        self._left -= 1
        return self._left == 0


class Cut(Order):
    """Close the connection that reaches the point. The order is marked as done before the client sees the close.

    With `seen_off`, the server has already ended the session and released its locks.
    """

    def __init__(self, point: Point, *, reset: bool, seen_off: bool) -> None:
        super().__init__(point)
        self.reset = reset
        self.seen_off = seen_off


class Hold(Order):
    """Hold all server messages from the point until the hold is released."""


@dataclass(slots=True)
class Script:
    orders: list[Order] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    passed: list[Message] = field(default_factory=list)
    swallowed: list[Message] = field(default_factory=list)
    is_silent: bool = False

    def reached_by(self, message: Message) -> list[Order]:
        """Remove and return the orders whose point is at the message."""
        reached = [each for each in self.orders if each.count(message)]
        self.orders = [each for each in self.orders if each not in reached]
        return reached
