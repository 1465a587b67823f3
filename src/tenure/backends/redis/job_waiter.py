"""Wait for claimable jobs.

A waiter polls, rarely more than once a second while idle, so every job is found even if notifications are lost. A poll
that finds nothing registers the waiter on the server in the same script. From then on, any script that makes a matching
job claimable notifies one registered waiter.
"""

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress

from tenure.backends.redis.encoding import encode_duration, encode_names, encode_timestamp
from tenure.backends.redis.listener import Listener
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.backends.shared import forking, waiter
from tenure.backends.shared.waiter import WaitGroup, WaitGroups
from tenure.errors import StoreUnavailable


class JobWaiter:
    """The waiters of a store handle, and the listener that wakes the waiters."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._reset()
        forking.register(self)

    def _reset(self) -> None:
        self._channel = self._server.address.key(f"wake:{secrets.token_hex(8)}")
        self._wait_groups = WaitGroups()
        self._listener = Listener(
            self._server, self._channel, on_notification=self._on_notification, on_change=self._wait_groups.reset
        )

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        """Return when a claim may find a job or the timeout ends; raise if the store is unavailable at the end."""
        ends_at = time.monotonic() + timeout
        group = self._wait_groups.group_for(queues, types)
        error: StoreUnavailable | None = None
        with group.count_waiter():
            while group.wait_to_poll(ends_at):
                self._listener.ensure_listening()
                if group.take_notification():
                    group.record_found()
                    return
                try:
                    claimable_in = self._poll(group)
                    error = None
                except StoreUnavailable as exc:
                    claimable_in, error = None, exc
                if claimable_in is not None and claimable_in <= 0:
                    group.record_found()
                    return
                group.record_nothing_found(claimable_in, is_notified_in_time=self._listener.is_connected)
        if error is not None:
            raise error

    def close(self) -> None:
        self._wait_groups.close()
        self._listener.close()

    def after_fork_in_child(self) -> None:
        """Reset: a fork copies no thread, and the connection belongs to the parent."""
        self._reset()

    def _poll(self, group: WaitGroup) -> float | None:
        """Return the seconds until a claim may find a job; None if unknown."""
        arguments = [
            encode_timestamp(self._server.now()),
            self._waiter_name(group),
            # Longer than the time until the next poll.
            encode_duration(2 * waiter.LONGEST_POLL),
            *encode_names(group.queues),
            *encode_names(group.types),
        ]
        claimable_in = self._server.run(script("wait"), arguments, may_repeat=False)
        return int(claimable_in) / 1_000_000 if claimable_in else None

    def _waiter_name(self, group: WaitGroup) -> str:
        return f"{self._channel}#{group.number}"

    def _on_notification(self, number: str) -> None:
        group = self._wait_groups.group_by_number(int(number)) if number.isdecimal() else None
        if group is not None and not group.notify():
            self._notify_next(group)

    def _notify_next(self, group: WaitGroup) -> None:
        """Notify another waiter: the local waiter left before the notification arrived."""
        with suppress(StoreUnavailable):
            arguments = [encode_timestamp(self._server.now()), *encode_names(group.queues), *encode_names(group.types)]
            self._server.run(script("notify"), arguments, may_repeat=False)
