"""Wait for rows that can be claimed.

Nobody tells of rows that the user's own code adds, so who waits looks: often while rows come, seldom more than once a
second when none do, and sooner if it is known that a row comes due, or that a lease runs out.
"""

import time
from collections.abc import Sequence

from tenure.backends.protocol import SCAN
from tenure.backends.shared import forking as forks
from tenure.backends.shared.waiter import Watch, Watches
from tenure.backends.tables.postgres.bound_table import Place
from tenure.errors import StoreUnavailable


class Waiting:
    """What one handle on a table needs to wait."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._watches = Watches()
        forks.watch(self)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        """Return when a claim may find something, or when the time is over; raise if the store is away by then."""
        ends_at = time.monotonic() + timeout
        watch = self._watches.of(queues, types)
        trouble: StoreUnavailable | None = None
        while watch.turn(ends_at):
            try:
                claimable_in, trouble = self._look(watch), None
            except StoreUnavailable as exc:
                claimable_in, trouble = None, exc
            if claimable_in is not None and claimable_in <= 0:
                watch.found()
                return
            watch.found_nothing(claimable_in, is_called_in_time=False)
        if trouble is not None:
            raise trouble

    def call(self) -> None:
        """Let one of those who wait here look: rows were given back."""
        self._watches.call(None)

    def close(self) -> None:
        self._watches.close()

    def after_fork_in_child(self) -> None:
        """Begin anew: those who wait are the parent's."""
        self._watches = Watches()

    def _look(self, watch: Watch) -> float | None:
        """Return in how many seconds a claim may find something; None if that is not known."""
        look = self._place.step("wait", "look", {"since": watch.told_until, "scan": SCAN})
        ((claimable_in, watch.told_until),) = self._place.ask([look], may_repeat=False)
        return None if claimable_in is None else float(claimable_in)
