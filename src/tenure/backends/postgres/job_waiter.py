"""Wait for jobs, and wake those who wait.

Who waits looks by itself, seldom more than once a second when nothing happens: so every job is found, whatever is lost
on the way. A ring only makes that sooner.
"""

import secrets
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import duration, optional_array
from tenure.backends.postgres.listener import Listener
from tenure.backends.postgres.notifier import Ring, Ringer, channel_of
from tenure.backends.postgres.pipeline import Step
from tenure.backends.shared import forking as forks
from tenure.backends.shared.waiter import AFTER_YOU, LONGEST_POLL, Watch, Watches
from tenure.core.job import Entry, State
from tenure.core.operations import Settlement
from tenure.errors import StoreUnavailable


class Wakeups:
    """What one handle on a store needs to wait, and to wake others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._name = secrets.token_hex(8)
        self._watches = Watches()
        self._ringer = Ringer(self._send)
        self._listener = Listener(
            self._database.address,
            self._name,
            connect=self._database.sessions.connect_to_listen,
            ring=self._ringer.mark,
            heard=self._hear,
            changed=self._watches.begin_anew,
        )

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        """Return when a claim may find something, or when the time is over; raise if the store is away by then."""
        ends_at = time.monotonic() + timeout
        watch = self._watches.of(queues, types)
        trouble: StoreUnavailable | None = None
        while watch.turn(ends_at):
            self._listener.attend()
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

    def ring(self, queues: Collection[str] | None) -> None:
        """Wake some who wait for jobs of these queues, None for any; here at once, elsewhere soon.

        To be called when what makes the jobs claimable is committed. It neither waits nor fails.
        """
        if queues is None or queues:
            self._watches.call(queues)
            self._ringer.mark(queues)

    def ring_for_jobs(self, entries: Sequence[Entry]) -> None:
        """Wake some who wait for these jobs, if they are due before anybody would look."""
        soon = (self._database.now() or datetime.now(UTC)) + timedelta(seconds=LONGEST_POLL)
        self.ring(
            {
                entry.queue
                for entry in entries
                if (entry.delay < LONGEST_POLL if entry.run_at is None else entry.run_at < soon)
            }
        )

    def ring_for_endings(self, settlements: Sequence[Settlement]) -> None:
        """Wake some who wait, if claims ended so that their jobs are due again before anybody would look."""
        if any(each.state is State.QUEUED and (each.delay or 0.0) < LONGEST_POLL for each in settlements):
            self.ring(None)

    def close(self) -> None:
        self._watches.close()
        self._listener.close()
        self._ringer.close()

    def after_fork_in_child(self) -> None:
        """Begin anew: the threads are gone, and their connections are the parent's."""
        forks.abandon(self._listener.opened())
        self._begin()

    def _look(self, watch: Watch) -> float | None:
        """Return in how many seconds a claim may find something; None if that is not known."""
        values = {
            "queues": optional_array(watch.queues),
            "types": optional_array(watch.types),
            "since": watch.told_until,
            "within": duration(LONGEST_POLL),
            "now": self._database.now(),
        }
        look = Step(self._database.asking(watch.queues, watch.types)["wait"]["look"], values)
        ((claimable_in, watch.told_until),) = self._database.ask([look], may_repeat=False)
        return None if claimable_in is None else float(claimable_in)

    def _hear(self, ring: Ring) -> None:
        # In every process somebody was woken: the first to look may have claimed before the others do.
        self._watches.call(ring.queues, within=AFTER_YOU)

    def _send(self, queues: frozenset[str] | None) -> None:
        values = {"channel": channel_of(self._database.address.schema), "payload": Ring(self._name, queues).text()}
        self._database.ask([Step(self._database.statements["ring"]["ring"], values)], may_repeat=False)
