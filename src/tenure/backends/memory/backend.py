"""The operations of the memory store, all under one lock.

The lock is a thread lock, not an event loop's: any thread and several event loops may use the same store. Payloads are
stored as text and decoded again for each result, so that no two callers share a payload.
"""

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tenure.backends.memory.enqueue_order import EnqueueOrder
from tenure.backends.memory.event_counts import EventCounts
from tenure.backends.memory.index import JobIndex
from tenure.backends.memory.record import StoredJob
from tenure.backends.memory.registry import WorkerRegistry
from tenure.backends.memory.schedules import Schedules
from tenure.backends.memory.search import find_page
from tenure.backends.memory.undo_log import UndoLog
from tenure.backends.memory.waiters import Waiter, Waiters
from tenure.backends.protocol import SWEEP, StoreClock
from tenure.core.job import JobRecord, Outcome, State
from tenure.core.operations import (
    Claimed,
    ClaimOutlook,
    ClaimRequest,
    Count,
    Enqueued,
    Event,
    Extension,
    Heartbeat,
    Hold,
    HoldStatus,
    Move,
    Moved,
    Page,
    Purge,
    Query,
    Reaped,
    Refusal,
    Scheduled,
    Schema,
    Settlement,
    Slot,
    Stats,
    WorkerInfo,
)
from tenure.core.schedules import check_schedule, outstanding_slots
from tenure.core.transitions import DELETABLE, build_release, move_note, refusal
from tenure.errors import KeyTaken, StoreUnavailable, TenureError

EVENT_BY_OUTCOME = {outcome: Event(outcome) for outcome in Outcome}


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class Memory:
    """A `Backend` in the memory of this process."""

    def __init__(self, *, clock: StoreClock | None = None) -> None:
        self._clock = clock or _wall_clock
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._sequence = 0
        self._index = JobIndex()
        self._enqueue_order = EnqueueOrder()
        self._undo_log = UndoLog()
        self._event_counts = EventCounts()
        self._waiters = Waiters()
        self._registry = WorkerRegistry()
        self._schedules = Schedules()

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        with self._locked() as now:
            return self._enqueue(records, now)

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        name = check_schedule(name, slots)
        with self._locked() as now:
            before = self._schedules.last_at(name)
            new_slots = outstanding_slots(slots, before or now)
            enqueued = self._enqueue([slot.record for slot in new_slots], now)
            last_at = new_slots[-1].at if new_slots else before or now
            self._undo_log.record_schedule(name, before)
            self._schedules.record(name, last_at)
            return Scheduled(now=now, last_at=last_at, ids=[each.id for each in enqueued])

    def claim(self, request: ClaimRequest) -> Claimed:
        with self._locked() as now:
            return self._claim(request, now)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        with self._locked() as now:
            return [self._extend(each, now) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        with self._locked() as now:
            return [self._settle(each, now) for each in settlements]

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        with self._locked() as now:
            return [self._settle(each, now) for each in settlements], self._claim(request, now)

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        with self._locked() as now:
            if worker is None:
                return self._reap_expired(now, limit)
            held = sorted(self._index.held_by_worker(worker), key=lambda job: (job.leased_until, job.sequence))
            return [self._reap(job, now, started, is_reported_dead=True) for job in held[:limit]]

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        note = move_note(move, reason)
        with self._locked() as now:
            return [self._move(id, move, note, now) for id in ids]

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        with self._locked():
            return [self._delete(id) for id in ids]

    def purge(self, purge: Purge) -> int:
        with self._locked() as now:
            before = now - timedelta(seconds=purge.older_than)
            old = self._index.pop_finished(before, purge.states, purge.queues, purge.limit)
            for job in old:
                self._delete_job(job)
            return len(old)

    def pause(self, queues: Sequence[str]) -> None:
        with self._locked():
            self._index.paused.update(queues)

    def resume(self, queues: Sequence[str]) -> None:
        with self._locked():
            self._index.paused.difference_update(queues)
            self._waiters.wake_all()

    def find(self, query: Query) -> Page:
        with self._locked() as now:
            return find_page(self._index.jobs, self._enqueue_order, query, now)

    def stats(self) -> Stats:
        with self._locked() as now:
            return Stats(rows=tuple(self._index.stats_rows(now)), paused=tuple(sorted(self._index.paused)))

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        with self._locked() as now:
            job = self._index.jobs.get(id)
            return None if job is None else self._explain(job, queues, types, now)

    def counts(self, since: float) -> list[Count]:
        with self._locked() as now:
            return self._event_counts.rows(since, now)

    def beat(self, beat: Heartbeat, ttl: float) -> None:
        with self._locked() as now:
            self._registry.beat(beat, ttl, now)

    def migrate(self) -> Schema:
        return Schema(before=1, now=1)

    def workers(self) -> list[WorkerInfo]:
        with self._locked() as now:
            return self._registry.workers(lambda name: len(self._index.held_by_worker(name)), now)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        waiter = Waiter(queues, types)
        with self._locked() as now:
            if self._index.has_due(queues, types, now):
                return
            if (next_at := self._index.next_at(queues, types)) is not None:
                timeout = min(timeout, (next_at - now).total_seconds())
            self._waiters.add(waiter)
        try:
            waiter.sleep(timeout)
        finally:
            # An interrupted waiter must not stay in the list: a wake-up for it would be lost.
            with self._locked():
                self._waiters.discard(waiter)

    def close(self) -> None:
        if self._is_in_this_process():
            with self._locked():
                self._waiters.wake_all()

    @contextmanager
    def _locked(self) -> Iterator[datetime]:
        """Hold the store's lock, and yield the time at which it was acquired."""
        # Before the lock: a forked child has a copy of the store, and of a lock that no thread will release.
        if not self._is_in_this_process():
            raise StoreUnavailable(
                f"this memory store belongs to process {self._process}; the forked process {os.getpid()} has only "
                "a copy. Use a store that processes can share, such as SQLite"
            )
        with self._lock:
            if self._undo_log.is_open:
                self._recover()
            self._undo_log.is_open = True
            try:
                yield self._clock()
            except TenureError:
                # A rejected request has changed nothing.
                self._undo_log.close()
                raise
            self._undo_log.close()

    def _recover(self) -> None:
        """Undo an operation that an exception, such as KeyboardInterrupt, interrupted half-way."""
        now, index, enqueue_order = self._clock(), JobIndex(), EnqueueOrder()
        index.paused = self._index.paused
        jobs = self._undo_log.roll_back(self._index.jobs)
        for job in sorted(jobs.values(), key=lambda job: job.sequence):
            index.add(job, now)
            enqueue_order.add(job.sequence, job.record.id)
        # Assign only now, and before the undo log closes: an interrupted recovery starts again.
        self._index, self._enqueue_order = index, enqueue_order
        self._schedules.restore(self._undo_log.schedules)
        self._undo_log.close()

    def _is_in_this_process(self) -> bool:
        return os.getpid() == self._process

    def _enqueue(self, records: Sequence[JobRecord], now: datetime) -> list[Enqueued]:
        planned: dict[str, JobRecord] = {}
        keys: dict[tuple[str, str], str] = {}
        results = [self._plan(record, planned, keys) for record in records]
        for record in planned.values():
            self._store(record, now)
        return results

    def _plan(self, record: JobRecord, planned: dict[str, JobRecord], keys: dict[tuple[str, str], str]) -> Enqueued:
        """Decide what to do with a record, without changing anything: a later record may reject the whole request."""
        if record.id in self._index.jobs or record.id in planned:
            return Enqueued(id=record.id, created=False)
        if record.key is not None:
            holder = self._index.key_holder(record.queue, record.key) or keys.get((record.queue, record.key))
            if holder is not None and record.on_conflict == "raise":
                raise KeyTaken(key=record.key, queue=record.queue, id=holder)
            if holder is not None:
                return Enqueued(id=holder, created=False)
            keys[record.queue, record.key] = record.id
        planned[record.id] = record
        return Enqueued(id=record.id, created=True)

    def _store(self, record: JobRecord, now: datetime) -> None:
        self._sequence += 1
        run_at = record.run_at or (now + timedelta(seconds=record.delay) if record.delay else now)
        job = StoredJob(record=record, sequence=self._sequence, created_at=now, run_at=run_at)
        self._undo_log.record_new(job)
        self._enqueue_order.add(job.sequence, record.id)
        self._event_counts.add(record.queue, Event.ENQUEUED, now)
        self._reindex(job, now)

    def _unindex(self, job: StoredJob) -> None:
        """Remove a job from the index before it changes."""
        self._undo_log.record(job)
        self._index.remove(job)

    def _reindex(self, job: StoredJob, now: datetime) -> None:
        """Put a job back into the index after a change, and wake the waiters that may want it."""
        self._index.add(job, now)
        if job.state is State.QUEUED:
            self._waiters.wake(job.record.queue, job.record.type, is_due=job.run_at <= now)

    def _claim(self, request: ClaimRequest, now: datetime) -> Claimed:
        jobs = sorted(self._index.held_by_token(request.token), key=lambda job: job.claim_order)
        if not jobs:
            self._reap_expired(now, SWEEP)
            jobs = self._index.pop_due(request.queues, request.types, now, request.limit)
            for job in jobs:
                self._undo_log.record(job)
                job.take(request, now)
                self._index.add(job, now)
                self._event_counts.add(job.record.queue, Event.CLAIMED, now)
        return Claimed(jobs=[job.job() for job in jobs])

    def _extend(self, extension: Extension, now: datetime) -> HoldStatus:
        job = self._index.jobs.get(extension.hold.id)
        if job is None or not job.is_held_by(extension.hold):
            return HoldStatus.LOST
        self._undo_log.record(job)
        job.extend(extension, now)
        self._index.index_lease(job)
        return HoldStatus.CANCEL_REQUESTED if job.cancel_requested else HoldStatus.HELD

    def _settle(self, settlement: Settlement, now: datetime) -> bool:
        job = self._index.jobs.get(settlement.hold.id)
        if job is None:
            return False
        if not job.is_held_by(settlement.hold):
            landed = job.landed_before(settlement)
            if not landed:
                self._event_counts.add(job.record.queue, Event.REFUSED, now)
            return landed
        self._unindex(job)
        job.settle(settlement, now)
        self._reindex(job, now)
        self._event_counts.add(job.record.queue, EVENT_BY_OUTCOME[settlement.outcome], now)
        return True

    def _reap_expired(self, now: datetime, limit: int) -> list[Reaped]:
        reaped: list[Reaped] = []
        while len(reaped) < limit and (job := self._index.first_expired(now)) is not None:
            reaped.append(self._reap(job, now))
        return reaped

    def _reap(
        self, job: StoredJob, now: datetime, started: Collection[str] | None = None, *, is_reported_dead: bool = False
    ) -> Reaped:
        worker, fence = str(job.worker), job.fence
        self._unindex(job)
        if started is None or job.record.id in started:
            job.expire(self._registry.find(worker, now), now, is_reported_dead=is_reported_dead)
            event = Event.EXPIRED
        else:
            job.settle(build_release(Hold(id=job.record.id, fence=fence, token=str(job.token))), now)
            event = Event.RELEASED
        self._reindex(job, now)
        self._event_counts.add(job.record.queue, event, now)
        return Reaped(id=job.record.id, state=job.state, worker=worker, fence=fence)

    def _move(self, id: str, move: Move, note: str, now: datetime) -> Moved:
        job = self._index.jobs.get(id)
        if job is None:
            return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
        refused = refusal(move, job.state, cancel_requested=job.cancel_requested)
        if refused is None and move is Move.RETRY and self._index.key_holder(job.record.queue, job.record.key):
            refused = Refusal.KEY_TAKEN
        if refused is None:
            self._unindex(job)
            if move is Move.RETRY:
                job.retry(note, now)
            else:
                job.cancel(note, now)
            self._reindex(job, now)
            self._event_counts.add(job.record.queue, Event.OPERATOR, now)
        return Moved(id=id, state=job.state, refusal=refused)

    def _explain(
        self, job: StoredJob, queues: Sequence[str] | None, types: Sequence[str] | None, now: datetime
    ) -> ClaimOutlook:
        is_due = job.state is State.QUEUED and job.run_at <= now
        return ClaimOutlook(
            now=now,
            job=job.job(),
            is_paused=job.record.queue in self._index.paused,
            ahead=self._index.count_ahead(job, queues, types, now) if is_due else 0,
            holder=self._registry.find(str(job.worker), now) if job.state is State.RUNNING else None,
        )

    def _delete(self, id: str) -> Moved:
        job = self._index.jobs.get(id)
        if job is None:
            return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
        if job.state not in DELETABLE:
            return Moved(id=id, state=job.state, refusal=Refusal.STATE)
        self._delete_job(job)
        return Moved(id=id, state=None)

    def _delete_job(self, job: StoredJob) -> None:
        self._undo_log.record(job)
        self._index.delete(job)
        self._enqueue_order.remove(job.sequence)


_named_stores: dict[str, Memory] = {}
_named_stores_lock = threading.Lock()


def open_memory(name: str) -> Memory:
    """Return the store with this name, shared within the process; without a name, a new store."""
    if not name:
        return Memory()
    with _named_stores_lock:
        return _named_stores.setdefault(name, Memory())
