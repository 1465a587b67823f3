"""Wait for jobs, and wake waiting threads and processes.

Waiters poll, about once a second when idle, so every job is found even if notifications are lost. A notification only
makes that faster.
"""

import secrets
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import microseconds, optional_array
from tenure.backends.postgres.listener import Listener
from tenure.backends.postgres.notifier import Notification, Notifier, channel_of
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.shared import forking
from tenure.backends.shared.waiter import LONGEST_POLL, WAKE_SPREAD, WaitGroup, WaitGroups
from tenure.core.job import JobRecord, State
from tenure.core.operations import Claimed, ClaimRequest, Settlement
from tenure.errors import StoreUnavailable


class JobWaiter:
    """Waits for jobs and sends notifications, for one `PostgreSQL` object."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reset()
        forking.register(self)

    def _reset(self) -> None:
        self._name = secrets.token_hex(8)
        self._wait_groups = WaitGroups()
        self._notifier = Notifier(self._send_notification)
        self._listener = Listener(
            self._database.address,
            self._name,
            connect=self._database.connector.connect_to_listen,
            ping=self._notifier.notify,
            on_notification=self._on_notification,
            on_change=self._wait_groups.reset,
        )

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        """Return when a claim may find jobs, or after the timeout; raise if the store was unavailable until then."""
        ends_at = time.monotonic() + timeout
        group = self._wait_groups.group_for(queues, types)
        error: StoreUnavailable | None = None
        while group.wait_to_poll(ends_at):
            self._listener.ensure_listening()
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

    def record_claim(self, request: ClaimRequest, claimed: Claimed) -> None:
        """Record a claim: polls pause if claims do not get the jobs that polls find."""
        self._wait_groups.record_claim(request, claimed)

    def wake(self, queues: Collection[str] | None) -> None:
        """Wake waiters for these queues, None for any: threads of this process at once, other processes soon.

        Call this after the commit that makes the jobs claimable. It does not block and does not raise.
        """
        if queues is None or queues:
            self._wait_groups.wake(queues)
            self._notifier.notify(queues)

    def wake_for_jobs(self, records: Sequence[JobRecord]) -> None:
        """Wake waiters for these jobs, if the jobs are due before the next poll."""
        soon = (self._database.now() or datetime.now(UTC)) + timedelta(seconds=LONGEST_POLL)
        self.wake(
            {
                record.queue
                for record in records
                if (record.delay < LONGEST_POLL if record.run_at is None else record.run_at < soon)
            }
        )

    def wake_for_settlements(self, settlements: Sequence[Settlement]) -> None:
        """Wake waiters if these settlements queue jobs that are due before the next poll."""
        if any(each.state is State.QUEUED and (each.delay or 0.0) < LONGEST_POLL for each in settlements):
            self.wake(None)

    def close(self) -> None:
        self._wait_groups.close()
        self._listener.close()
        self._notifier.close()

    def after_fork_in_child(self) -> None:
        """Reset after fork: the threads are gone, and their connections belong to the parent."""
        forking.abandon(self._listener.open_handles())
        self._reset()

    def _poll(self, group: WaitGroup) -> float | None:
        """Poll; return in how many seconds a claim may find jobs, None if unknown."""
        values = {
            "queues": optional_array(group.queues),
            "types": optional_array(group.types),
            "since": group.notified_until,
            "within": microseconds(LONGEST_POLL),
            "now": self._database.now(),
        }
        poll_query = BoundQuery(self._database.statements_for(group.queues, group.types)["wait"]["poll"], values)
        ((claimable_in, group.notified_until),) = self._database.execute([poll_query], may_repeat=False)
        return None if claimable_in is None else float(claimable_in)

    def _on_notification(self, notification: Notification) -> None:
        # The notification wakes a thread in every process. Spread their polls, so that the first can claim before the
        # others poll.
        self._wait_groups.wake(notification.queues, spread=WAKE_SPREAD)

    def _send_notification(self, queues: frozenset[str] | None) -> None:
        values = {
            "channel": channel_of(self._database.address.schema),
            "payload": Notification(self._name, queues).payload(),
        }
        self._database.execute([BoundQuery(self._database.statements["notify"]["notify"], values)], may_repeat=False)
