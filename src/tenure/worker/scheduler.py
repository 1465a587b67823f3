"""Enqueue the jobs of a schedule. Every worker tries; the store accepts each slot once.

The store's clock decides which slots are due: the clock of a worker may be wrong.
"""

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.backends.protocol import Backend
from tenure.core.job import JobRecord
from tenure.core.operations import LARGEST_BATCH, Scheduled, Slot
from tenure.tasks.registry import Periodic

log = logging.getLogger(__name__)

MAX_CLOCK_LEAD = timedelta(minutes=5)
MAX_SLEEP = 30.0
"""Longest sleep in seconds: the clock may have been set, or the machine suspended."""


class Scheduler:
    def __init__(self, store: Backend, periodic: Periodic) -> None:
        self._store = store
        self._periodic = periodic
        self._is_ahead = False

    def enqueue_due(self) -> float:
        """Enqueue the due slots; return the seconds until the next check."""
        schedule = self._periodic.schedule
        scheduled = self._store.schedule(schedule.name, [])
        self._log_if_ahead(scheduled)
        due = schedule.due(scheduled.last_at, scheduled.now)
        if due:
            scheduled = self._store.schedule(
                schedule.name, [Slot(at=slot, record=self._build_record(slot)) for slot in due]
            )
            # If the key is taken, the store returns the id of the earlier job.
            for id in {schedule.job_id(slot) for slot in due} & set(scheduled.ids):
                log.info("schedule %s enqueued job %s", schedule.name, id, extra={"job": id, "schedule": schedule.name})
            if len(due) == LARGEST_BATCH:
                return 0.0
        next_at = schedule.next_after(max(scheduled.last_at, scheduled.now))
        return min(MAX_SLEEP, (next_at - scheduled.now).total_seconds())

    def _log_if_ahead(self, scheduled: Scheduled) -> None:
        """Warn once if the last slot lies far in the future, enqueued by a wrong clock: no slot is due before then."""
        is_ahead = scheduled.last_at > scheduled.now + MAX_CLOCK_LEAD
        if is_ahead and not self._is_ahead:
            log.warning(
                "schedule %s has already run until %s because a clock was ahead; no run is due before then; "
                "use another name= to start now",
                self._periodic.schedule.name,
                scheduled.last_at,
            )
        self._is_ahead = is_ahead

    def _build_record(self, slot: datetime) -> JobRecord:
        job = self._periodic.job()
        id = self._periodic.schedule.job_id(slot)
        return replace(job, run_at=slot, id=id, meta={"slot": slot.isoformat()}).record(id)
