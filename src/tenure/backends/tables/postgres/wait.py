"""Wait for claimable rows.

The user's code inserts rows without a notification, so waiting threads poll: often while rows arrive, about once a
second when idle, and sooner if a row comes due or a lease expires before then.
"""

import time
from collections.abc import Callable, Sequence

from tenure.backends.protocol import SCAN
from tenure.backends.shared import forking
from tenure.backends.shared.waiter import WaitGroup, WaitGroups
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.keys import KeyTexts
from tenure.core.operations import Claimed, ClaimRequest
from tenure.errors import StoreUnavailable


class RowWaiter:
    """Waits for rows of one table; shared by all threads of a handle."""

    def __init__(self, bound_table: BoundTable, avoided_keys: Callable[[], Sequence[KeyTexts]]) -> None:
        self._bound_table = bound_table
        self._avoided_keys = avoided_keys
        self._wait_groups = WaitGroups()
        forking.register(self)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        """Return when a claim may find rows, or after the timeout. Raise if the last poll failed."""
        ends_at = time.monotonic() + timeout
        wait_group = self._wait_groups.group_for(queues, types)
        error: StoreUnavailable | None = None
        while wait_group.wait_to_poll(ends_at):
            try:
                claimable_in, error = self._poll(wait_group), None
            except StoreUnavailable as exc:
                claimable_in, error = None, exc
            if claimable_in is not None and claimable_in <= 0:
                wait_group.record_found()
                return
            wait_group.record_nothing_found(claimable_in, is_notified_in_time=False)
        if error is not None:
            raise error

    def record_claim(self, request: ClaimRequest, claimed: Claimed) -> None:
        """Record a claim: polls pause if claims do not get the rows that polls find."""
        self._wait_groups.record_claim(request, claimed)

    def wake(self) -> None:
        """Wake one waiting thread to poll: rows were requeued."""
        self._wait_groups.wake(None)

    def close(self) -> None:
        self._wait_groups.close()

    def after_fork_in_child(self) -> None:
        """Reset: the waiting threads belong to the parent process."""
        self._wait_groups = WaitGroups()

    def _poll(self, wait_group: WaitGroup) -> float | None:
        """Poll; return the seconds until a claim may find rows, None if unknown."""
        values = {"since": wait_group.notified_until, "scan": SCAN}
        poll_query = self._bound_table.build_choice_query("wait", "poll", values, avoided=self._avoided_keys())
        ((claimable_in, wait_group.notified_until),) = self._bound_table.execute([poll_query], may_repeat=False)
        return None if claimable_in is None else float(claimable_in)
