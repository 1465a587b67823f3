"""Gives out the slots of a schedule. Every worker tries; the store lets each slot be given out once.

What is due is decided by the store's clock: that of a worker may be wrong.
"""

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.backends.protocol import Backend
from tenure.core.job import Entry
from tenure.core.operations import LARGEST_BATCH, Scheduled, Slot
from tenure.tasks.registry import Periodic

log = logging.getLogger(__name__)

AHEAD = timedelta(minutes=5)
LONGEST_SLEEP = 30.0
"""Seconds after which the clock is looked at again: it may have been set, or the machine have slept."""


class Scheduler:
    def __init__(self, store: Backend, periodic: Periodic) -> None:
        self._store = store
        self._periodic = periodic
        self._is_ahead = False

    def give_out(self) -> float:
        """Enqueue what is due; return after how many seconds to look again."""
        schedule = self._periodic.schedule
        known = self._store.schedule(schedule.name, [])
        self._say_if_it_is_ahead(known)
        due = schedule.due(known.last_at, known.now)
        if due:
            known = self._store.schedule(schedule.name, [Slot(at=slot, entry=self._entry(slot)) for slot in due])
            # With a key that is taken, the id is that of an earlier job.
            for id in {schedule.id_of(slot) for slot in due} & set(known.ids):
                log.info("schedule %s enqueued job %s", schedule.name, id, extra={"job": id, "schedule": schedule.name})
            if len(due) == LARGEST_BATCH:
                return 0.0
        next_at = schedule.next_after(max(known.last_at, known.now))
        return min(LONGEST_SLEEP, (next_at - known.now).total_seconds())

    def _say_if_it_is_ahead(self, known: Scheduled) -> None:
        """Say it once, if the last moment was given out by a clock that was far ahead: until then nothing is due."""
        is_ahead = known.last_at > known.now + AHEAD
        if is_ahead and not self._is_ahead:
            log.warning(
                "schedule %s was given out until %s, by a clock that was wrong: nothing is due before that; "
                "give it another name= to begin anew",
                self._periodic.schedule.name,
                known.last_at,
            )
        self._is_ahead = is_ahead

    def _entry(self, slot: datetime) -> Entry:
        job = self._periodic.job()
        id = self._periodic.schedule.id_of(slot)
        return replace(job, run_at=slot, id=id, meta={"slot": slot.isoformat()}).entry(id)
