"""What a proxy was told to do, and what passed through it: what is decided, without the sockets."""

import threading
from dataclasses import dataclass, field

from tests.proxies.points import Point
from tests.proxies.wire import Message

PATIENCE = 120.0
"""Seconds after which something that has to happen counts as not happening."""


class Order:
    """Something that happens once, when a point is reached."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self._left = point.number
        self._done = threading.Event()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        """Return when it has happened."""
        assert self._done.wait(PATIENCE), f"{self.point} was not reached within {PATIENCE:g} s"

    def mark_done(self) -> None:
        self._done.set()

    def count(self, message: Message) -> bool:
        """Count this message, and tell whether it is the one that was named."""
        if not self.point.pattern.matches(message):
            return False
        self._left -= 1
        return self._left == 0


class Cut(Order):
    """The end of the connection on which its point is reached. It is done before the client sees it.

    If it is `seen_off`, the server has let go of everything by then.
    """

    def __init__(self, point: Point, *, reset: bool, seen_off: bool) -> None:
        super().__init__(point)
        self.reset = reset
        self.seen_off = seen_off


class Hold(Order):
    """From its point on nothing from the server reaches any client, until it is released."""


@dataclass(slots=True)
class Script:
    orders: list[Order] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    passed: list[Message] = field(default_factory=list)
    swallowed: list[Message] = field(default_factory=list)
    is_silent: bool = False

    def reached_by(self, message: Message) -> list[Order]:
        """Return the orders whose point is at this message, and forget them."""
        reached = [each for each in self.orders if each.count(message)]
        self.orders = [each for each in self.orders if each not in reached]
        return reached
