"""The threads of this process that wait for jobs, and the times at which they poll.

All waiters for the same queues and types share a wait group and take turns: one poll serves the whole group, and one
notification wakes one waiter. A wait group outlives its waiters, so that a notification between two waits is not lost.
"""

import random
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from tenure.core.filters import NameFilter
from tenure.core.operations import Claimed, ClaimRequest

SHORTEST_POLL, LONGEST_POLL = 0.025, 1.0
"""Seconds between two polls: the shortest while jobs arrive, the longest after a long time without jobs."""
POLL_GROWTH = 1.5

WAKE_SPREAD = 0.003
"""Spread, in seconds, of the polls of waiters woken by one notification: the first can claim before the others poll."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.5
"""Seconds without polls after a claim that did not get the job that a poll found; doubled after each further claim
without a job."""

MOST_GROUPS = 100
"""The maximum number of wait groups. A group dropped while in use gets no more notifications, and polls."""


class WaitGroup:
    """The waiters for certain queues and types, and the time of their next poll: no job is expected before it."""

    def __init__(self, queues: NameFilter, types: NameFilter, number: int = 0) -> None:
        self.queues = queues
        self.types = types
        self.number = number
        self.notified_until: str | None = None
        """The waiters know of the leases that expired up to this time of the store's clock."""
        # Always acquired directly, not through the condition: an interrupt in `Condition.__enter__` leaves it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._poll_at = 0.0
        self._poll_interval = SHORTEST_POLL
        self._has_found = False
        self._pause = 0.0
        self._is_woken = False
        self._is_notified = False
        self._is_closed = False
        self._waiter_count = 0

    @contextmanager
    def count_waiter(self) -> Iterator[None]:
        """Count the caller as a waiter during the block."""
        self._add_waiters(1)
        try:
            yield
        finally:
            self._add_waiters(-1)

    def wants(self, queues: Collection[str] | None) -> bool:
        return queues is None or self.queues is None or not set(self.queues).isdisjoint(queues)

    def wait_to_poll(self, ends_at: float) -> bool:
        """Sleep until the caller has to poll. Return False if `ends_at` comes first, or the store closes."""
        with self._lock:
            while not self._is_closed:
                now = time.monotonic()
                if now >= self._poll_at:
                    # If this poll fails, the next waiter polls a little later.
                    self._poll_at = now + SHORTEST_POLL
                    self._is_woken = False
                    return True
                if now >= ends_at:
                    return False
                self._changed.wait(min(self._poll_at, ends_at) - now)
            return False

    def record_found(self) -> None:
        """Record that the caller found a job and will claim it, and let the next waiter poll for more."""
        with self._lock:
            self._has_found = True
            self._poll_interval = SHORTEST_POLL
            self._poll_at = time.monotonic() + WAKE_SPREAD
            self._changed.notify()

    def record_claim(self, *, has_jobs: bool) -> None:
        """Record a claim. Pause the polls if it did not get the job that a poll found: the job may be locked for long.

        A claim that got jobs ends the pause. A wake-up allows one poll.
        """
        with self._lock:
            if has_jobs and self._pause:
                self._pause = 0.0
                self._poll_at = min(self._poll_at, time.monotonic() + WAKE_SPREAD)
                self._changed.notify()
            elif not has_jobs and self._has_found and not self._is_woken:
                self._pause = min(max(2 * self._pause, SHORTEST_PAUSE), LONGEST_PAUSE)
                self._poll_at = max(self._poll_at, time.monotonic() + self._pause)
            self._has_found = False

    def record_nothing_found(self, claimable_in: float | None, *, is_notified_in_time: bool) -> None:
        """Record that the poll found no job, and set the time of the next poll.

        The group polls rarely if a notification will arrive in time.
        """
        with self._lock:
            self._pause = 0.0
            poll = LONGEST_POLL if is_notified_in_time else self._poll_interval
            self._poll_interval = min(LONGEST_POLL, POLL_GROWTH * self._poll_interval)
            if not self._is_woken:
                pause = poll * random.uniform(0.75, 1.0)
                self._poll_at = time.monotonic() + (pause if claimable_in is None else min(pause, claimable_in))

    def wake(self, spread: float) -> bool:
        """Wake one waiter, or the next to arrive, to poll. Return whether a thread is waiting."""
        with self._lock:
            self._is_woken = True
            self._poll_at = min(self._poll_at, time.monotonic() + random.uniform(0.0, spread))
            self._changed.notify()
            return self._waiter_count > 0

    def notify(self) -> bool:
        """Wake one waiter, or the next to arrive, to claim: a job is available. Return whether a thread is waiting."""
        with self._lock:
            self._is_notified = True
        return self.wake(0.0)

    def take_notification(self) -> bool:
        """Return whether a notification of a job is unhandled, and mark it as handled by the caller."""
        with self._lock:
            is_notified, self._is_notified = self._is_notified, False
        return is_notified

    def reset(self) -> None:
        """Poll soon and often: notifications may have been missed."""
        with self._lock:
            self._poll_interval = SHORTEST_POLL
        self.wake(SHORTEST_POLL)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def _add_waiters(self, number: int) -> None:
        with self._lock:
            self._waiter_count += number


class WaitGroups:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[tuple[NameFilter, NameFilter], WaitGroup] = {}
        self._numbers = count()
        self._is_closed = False

    def group_for(self, queues: Sequence[str] | None, types: Sequence[str] | None) -> WaitGroup:
        """Return the wait group for these queues and types; None means all."""
        key = (None if queues is None else tuple(queues), None if types is None else tuple(types))
        with self._lock:
            # Move the group to the end: the least recently used group is dropped first.
            group = self._groups.pop(key, None) or WaitGroup(*key, next(self._numbers))
            self._groups[key] = group
            if len(self._groups) > MOST_GROUPS:
                del self._groups[next(iter(self._groups))]
            if self._is_closed:
                group.close()
        return group

    def record_claim(self, request: ClaimRequest, claimed: Claimed) -> None:
        """Record a claim for the wait group of its queues and types, except one that was cut before it got a job."""
        if claimed.is_cut and not claimed.jobs:
            return
        with self._lock:
            group = self._groups.get((request.queues, request.types))
        if group is not None:
            group.record_claim(has_jobs=bool(claimed.jobs))

    def group_by_number(self, number: int) -> WaitGroup | None:
        """Return the wait group with this number, or None if it was dropped."""
        return next((group for group in self._all() if group.number == number), None)

    def wake(self, queues: Collection[str] | None, spread: float = 0.0) -> None:
        """Wake a waiter of every group that may want jobs of these queues; None means any queue."""
        for group in self._all():
            if group.wants(queues):
                group.wake(spread)

    def reset(self) -> None:
        for group in self._all():
            group.reset()

    def close(self) -> None:
        """End all current and future waits."""
        with self._lock:
            self._is_closed = True
        for group in self._all():
            group.close()

    def _all(self) -> list[WaitGroup]:
        with self._lock:
            return list(self._groups.values())
