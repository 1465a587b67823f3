"""Wait for jobs.

Who waits looks by itself, seldom more than once a second when nothing happens: so every job is found, whatever is lost
on the way. A look that finds nothing leaves word on the server, in the same script: whatever makes a job claimable from
then on calls one of those who wait for such.
"""

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress

from tenure.backends.redis.encoding import duration, moment, names
from tenure.backends.redis.listener import Listener
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.backends.shared import forking as forks
from tenure.backends.shared import waiter as watches
from tenure.backends.shared.waiter import Watch, Watches
from tenure.errors import StoreUnavailable


class Wakeups:
    """What one handle on a store needs to wait."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._channel = self._server.address.key(f"wake:{secrets.token_hex(8)}")
        self._watches = Watches()
        self._listener = Listener(self._server, self._channel, heard=self._hear, changed=self._watches.begin_anew)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        """Return when a claim may find something, or when the time is over; raise if the store is away by then."""
        ends_at = time.monotonic() + timeout
        watch = self._watches.of(queues, types)
        trouble: StoreUnavailable | None = None
        with watch.attended():
            while watch.turn(ends_at):
                self._listener.attend()
                if watch.has_rung():
                    watch.found()
                    return
                try:
                    claimable_in = self._look(watch)
                    trouble = None
                except StoreUnavailable as exc:
                    claimable_in, trouble = None, exc
                if claimable_in is not None and claimable_in <= 0:
                    watch.found()
                    return
                watch.found_nothing(claimable_in, is_called_in_time=self._listener.hears)
        if trouble is not None:
            raise trouble

    def close(self) -> None:
        self._watches.close()
        self._listener.close()

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread is gone, and its connection is the parent's."""
        self._begin()

    def _look(self, watch: Watch) -> float | None:
        """Return in how many seconds a claim may find something; None if that is not known."""
        arguments = [
            moment(self._server.now()),
            self._waiter(watch),
            # Somewhat longer than until it looks again.
            duration(2 * watches.LONGEST_POLL),
            *names(watch.queues),
            *names(watch.types),
        ]
        claimable_in = self._server.run(script("wait"), arguments, may_repeat=False)
        return int(claimable_in) / 1_000_000 if claimable_in else None

    def _waiter(self, watch: Watch) -> str:
        return f"{self._channel}#{watch.number}"

    def _hear(self, number: str) -> None:
        watch = self._watches.numbered(int(number)) if number.isdecimal() else None
        if watch is not None and not watch.ring():
            self._pass_on(watch)

    def _pass_on(self, watch: Watch) -> None:
        """Have another called in place of somebody here who left before the call came."""
        with suppress(StoreUnavailable):
            arguments = [moment(self._server.now()), *names(watch.queues), *names(watch.types)]
            self._server.run(script("ring"), arguments, may_repeat=False)
