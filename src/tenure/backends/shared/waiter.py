"""Those of this process who wait for jobs, and when one of them is to look.

All who wait for the same queues and types share a watch and take turns: one look serves them all, and one call wakes
one of them. A watch outlives the waits, so that a call that comes between two of them is not lost.
"""

import random
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

SHORTEST_POLL, LONGEST_POLL = 0.025, 1.0
"""Seconds between two looks: the first while jobs come, the last when none has come for long."""
GROWTH = 1.5

AFTER_YOU = 0.003
"""Seconds within which those who were woken by the same look one after the other, and the first may have claimed."""

MOST_WATCHES = 100
"""How many are kept. One that is dropped while somebody uses it is not called any more, and polls."""

Names = tuple[str, ...] | None


class Watch:
    """What is known of the jobs of certain queues and types: that there are none before a certain moment."""

    def __init__(self, queues: Names, types: Names, number: int = 0) -> None:
        self.queues = queues
        self.types = types
        self.number = number
        self.told_until: str | None = None
        """Of the leases that ran out until then, by the store's clock, those who wait were told."""
        # Entered by itself and not by way of the condition: that, if it is interrupted, keeps the lock for ever.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._look_at = 0.0
        self._poll = SHORTEST_POLL
        self._is_called = False
        self._is_rung = False
        self._is_closed = False
        self._attending = 0

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Count the caller among those who wait."""
        self._attend(1)
        try:
            yield
        finally:
            self._attend(-1)

    def wants(self, queues: Collection[str] | None) -> bool:
        return queues is None or self.queues is None or not set(self.queues).isdisjoint(queues)

    def turn(self, ends_at: float) -> bool:
        """Sleep until it is the caller's turn to look; False if its time is over first, or the store is closed."""
        with self._lock:
            while not self._is_closed:
                now = time.monotonic()
                if now >= self._look_at:
                    # Should this look fail, another one looks a little later.
                    self._look_at = now + SHORTEST_POLL
                    self._is_called = False
                    return True
                if now >= ends_at:
                    return False
                self._changed.wait(min(self._look_at, ends_at) - now)
            return False

    def found(self) -> None:
        """Something can be claimed, and the caller will: let the next one see whether something is left."""
        with self._lock:
            self._poll = SHORTEST_POLL
            self._look_at = time.monotonic() + AFTER_YOU
            self._changed.notify()

    def found_nothing(self, claimable_in: float | None, *, is_called_in_time: bool) -> None:
        """Let nobody look before something may be there, if that is known, nor too soon.

        Who will be called when there is something has no need to look often.
        """
        with self._lock:
            poll = LONGEST_POLL if is_called_in_time else self._poll
            self._poll = min(LONGEST_POLL, GROWTH * self._poll)
            if not self._is_called:
                pause = poll * random.uniform(0.75, 1.0)
                self._look_at = time.monotonic() + (pause if claimable_in is None else min(pause, claimable_in))

    def call(self, within: float) -> bool:
        """Let one of those who wait look, or the next who will; tell whether somebody waits."""
        with self._lock:
            self._is_called = True
            self._look_at = min(self._look_at, time.monotonic() + random.uniform(0.0, within))
            self._changed.notify()
            return self._attending > 0

    def ring(self) -> bool:
        """Let one of those who wait claim, or the next who will: there is something. Tell whether somebody waits."""
        with self._lock:
            self._is_rung = True
        return self.call(0.0)

    def has_rung(self) -> bool:
        """Tell whether there is something to claim, by a ring that nobody has heeded yet; the caller will."""
        with self._lock:
            has_rung, self._is_rung = self._is_rung, False
        return has_rung

    def begin_anew(self) -> None:
        """Look soon and often, for calls may have been missed."""
        with self._lock:
            self._poll = SHORTEST_POLL
        self.call(SHORTEST_POLL)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def _attend(self, number: int) -> None:
        with self._lock:
            self._attending += number


class Watches:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[tuple[Names, Names], Watch] = {}
        self._numbers = count()
        self._is_closed = False

    def of(self, queues: Sequence[str] | None, types: Sequence[str] | None) -> Watch:
        """Return the watch on these; None is all."""
        asked = (None if queues is None else tuple(queues), None if types is None else tuple(types))
        with self._lock:
            # The last used is the last to be dropped.
            watch = self._watches.pop(asked, None) or Watch(*asked, next(self._numbers))
            self._watches[asked] = watch
            if len(self._watches) > MOST_WATCHES:
                del self._watches[next(iter(self._watches))]
            if self._is_closed:
                watch.close()
        return watch

    def numbered(self, number: int) -> Watch | None:
        """Return the watch of this number, if it is still kept."""
        return next((watch for watch in self._all() if watch.number == number), None)

    def call(self, queues: Collection[str] | None, within: float = 0.0) -> None:
        """Let one look of each watch that jobs of these queues may be for; None is any queue."""
        for watch in self._all():
            if watch.wants(queues):
                watch.call(within)

    def begin_anew(self) -> None:
        for watch in self._all():
            watch.begin_anew()

    def close(self) -> None:
        """End all waits, present and future."""
        with self._lock:
            self._is_closed = True
        for watch in self._all():
            watch.close()

    def _all(self) -> list[Watch]:
        with self._lock:
            return list(self._watches.values())
