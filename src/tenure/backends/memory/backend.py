"""The operations of the memory store, each under one lock.

A lock of threads, not of an event loop: the same store may be used from any thread and from several loops.
Payloads are kept as text and decoded anew for each answer, so no caller ever shares one with another.
"""

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tenure.backends.memory.enqueue_order import Catalogue
from tenure.backends.memory.event_counts import Tally
from tenure.backends.memory.index import Index
from tenure.backends.memory.record import Record
from tenure.backends.memory.registry import Registry
from tenure.backends.memory.schedules import Schedules
from tenure.backends.memory.search import find_page
from tenure.backends.memory.undo_log import Journal
from tenure.backends.memory.waiters import Waiter, Waiters
from tenure.backends.protocol import SWEEP, Clock
from tenure.core.job import Entry, Outcome, State
from tenure.core.operations import (
    Beat,
    Claimed,
    ClaimRequest,
    Count,
    Enqueued,
    Event,
    Extension,
    Hold,
    Holding,
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
    Standing,
    Stats,
    Worker,
)
from tenure.core.schedules import checked_name, outstanding
from tenure.core.transitions import DELETABLE, move_note, refusal, released
from tenure.errors import KeyTaken, StoreUnavailable, TenureError

EVENTS = {outcome: Event(outcome) for outcome in Outcome}


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class Memory:
    """A `Backend` in this process. It ends with the process."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or _wall_clock
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._sequence = 0
        self._index = Index()
        self._catalogue = Catalogue()
        self._journal = Journal()
        self._tally = Tally()
        self._waiters = Waiters()
        self._registry = Registry()
        self._schedules = Schedules()

    def enqueue(self, entries: Sequence[Entry]) -> list[Enqueued]:
        with self._locked() as now:
            return self._enqueue(entries, now)

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        name = checked_name(name, slots)
        with self._locked() as now:
            before = self._schedules.last_at(name)
            given_out = outstanding(slots, before or now)
            enqueued = self._enqueue([slot.entry for slot in given_out], now)
            last_at = given_out[-1].at if given_out else before or now
            self._journal.note_schedule(name, before)
            self._schedules.note(name, last_at)
            return Scheduled(now=now, last_at=last_at, ids=[each.id for each in enqueued])

    def claim(self, request: ClaimRequest) -> Claimed:
        with self._locked() as now:
            return self._claim(request, now)

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
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
            held = sorted(self._index.held_by_worker(worker), key=lambda record: (record.leased_until, record.sequence))
            return [self._reap(record, now, started, is_said_dead=True) for record in held[:limit]]

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
            old = self._index.finished_before(before, purge.states, purge.queues, purge.limit)
            for record in old:
                self._forget(record)
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
            return find_page(self._index.records, self._catalogue, query, now)

    def stats(self) -> Stats:
        with self._locked() as now:
            return Stats(rows=tuple(self._index.stats_rows(now)), paused=tuple(sorted(self._index.paused)))

    def standing(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> Standing | None:
        with self._locked() as now:
            record = self._index.records.get(id)
            return None if record is None else self._standing(record, queues, types, now)

    def counts(self, since: float) -> list[Count]:
        with self._locked() as now:
            return self._tally.rows(since, now)

    def beat(self, beat: Beat, ttl: float) -> None:
        with self._locked() as now:
            self._registry.beat(beat, ttl, now)

    def migrate(self) -> Schema:
        return Schema(before=1, now=1)

    def workers(self) -> list[Worker]:
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
            # An interrupted sleeper must not stay and be woken in another's place.
            with self._locked():
                self._waiters.discard(waiter)

    def close(self) -> None:
        if self._is_here():
            with self._locked():
                self._waiters.wake_all()

    @contextmanager
    def _locked(self) -> Iterator[datetime]:
        """Hold the store, and give the moment at which it is held."""
        # Before the lock: a child of a fork has a copy of the store, and of a lock that nobody there will release.
        if not self._is_here():
            raise StoreUnavailable(
                f"this memory store belongs to process {self._process}, and a forked process ({os.getpid()}) has only "
                "a copy of it; use a store that processes can share"
            )
        with self._lock:
            if self._journal.is_open:
                self._recover()
            self._journal.is_open = True
            try:
                yield self._clock()
            except TenureError:
                # A request that is refused has changed nothing.
                self._journal.close()
                raise
            self._journal.close()

    def _recover(self) -> None:
        """Undo an operation that an exception, such as KeyboardInterrupt, broke off half-way."""
        now, index, catalogue = self._clock(), Index(), Catalogue()
        index.paused = self._index.paused
        records = self._journal.undone(self._index.records)
        for record in sorted(records.values(), key=lambda record: record.sequence):
            index.add(record, now)
            catalogue.add(record.sequence, record.entry.id)
        # Only now, and before the journal is closed: this may be broken off as well, and then begins again.
        self._index, self._catalogue = index, catalogue
        self._schedules.restore(self._journal.schedules)
        self._journal.close()

    def _is_here(self) -> bool:
        return os.getpid() == self._process

    def _enqueue(self, entries: Sequence[Entry], now: datetime) -> list[Enqueued]:
        planned: dict[str, Entry] = {}
        keys: dict[tuple[str, str], str] = {}
        answers = [self._plan(entry, planned, keys) for entry in entries]
        for entry in planned.values():
            self._store(entry, now)
        return answers

    def _plan(self, entry: Entry, planned: dict[str, Entry], keys: dict[tuple[str, str], str]) -> Enqueued:
        """Decide what becomes of an entry, and change nothing yet: a later one may refuse them all."""
        if entry.id in self._index.records or entry.id in planned:
            return Enqueued(id=entry.id, created=False)
        if entry.key is not None:
            holder = self._index.key_holder(entry.queue, entry.key) or keys.get((entry.queue, entry.key))
            if holder is not None and entry.on_conflict == "raise":
                raise KeyTaken(key=entry.key, queue=entry.queue, id=holder)
            if holder is not None:
                return Enqueued(id=holder, created=False)
            keys[entry.queue, entry.key] = entry.id
        planned[entry.id] = entry
        return Enqueued(id=entry.id, created=True)

    def _store(self, entry: Entry, now: datetime) -> None:
        self._sequence += 1
        run_at = entry.run_at or (now + timedelta(seconds=entry.delay) if entry.delay else now)
        record = Record(entry=entry, sequence=self._sequence, created_at=now, run_at=run_at)
        self._journal.note_new(record)
        self._catalogue.add(record.sequence, entry.id)
        self._tally.add(entry.queue, Event.ENQUEUED, now)
        self._add(record, now)

    def _take_out(self, record: Record) -> None:
        """Take a record out of the index before it changes."""
        self._journal.note(record)
        self._index.remove(record)

    def _add(self, record: Record, now: datetime) -> None:
        """Put a record back after it changed, and wake who may want to know."""
        self._index.add(record, now)
        if record.state is State.QUEUED:
            self._waiters.wake(record.entry.queue, record.entry.type, is_due=record.run_at <= now)

    def _claim(self, request: ClaimRequest, now: datetime) -> Claimed:
        records = sorted(self._index.held_by_token(request.token), key=lambda record: record.order)
        if not records:
            self._reap_expired(now, SWEEP)
            records = self._index.pop_due(request.queues, request.types, now, request.limit)
            for record in records:
                self._journal.note(record)
                record.take(request, now)
                self._index.add(record, now)
                self._tally.add(record.entry.queue, Event.CLAIMED, now)
        return Claimed(jobs=[record.job() for record in records])

    def _extend(self, extension: Extension, now: datetime) -> Holding:
        record = self._index.records.get(extension.hold.id)
        if record is None or not record.is_held_by(extension.hold):
            return Holding.LOST
        self._journal.note(record)
        record.extend(extension, now)
        self._index.note_lease(record)
        return Holding.CANCEL_REQUESTED if record.cancel_requested else Holding.HELD

    def _settle(self, settlement: Settlement, now: datetime) -> bool:
        record = self._index.records.get(settlement.hold.id)
        if record is None:
            return False
        if not record.is_held_by(settlement.hold):
            landed = record.has_ended_by(settlement)
            if not landed:
                self._tally.add(record.entry.queue, Event.REFUSED, now)
            return landed
        self._take_out(record)
        record.settle(settlement, now)
        self._add(record, now)
        self._tally.add(record.entry.queue, EVENTS[settlement.outcome], now)
        return True

    def _reap_expired(self, now: datetime, limit: int) -> list[Reaped]:
        reaped: list[Reaped] = []
        while len(reaped) < limit and (record := self._index.expired(now)) is not None:
            reaped.append(self._reap(record, now))
        return reaped

    def _reap(
        self, record: Record, now: datetime, started: Collection[str] | None = None, *, is_said_dead: bool = False
    ) -> Reaped:
        worker, fence = str(record.worker), record.fence
        self._take_out(record)
        if started is None or record.entry.id in started:
            record.expire(self._registry.known(worker, now), now, is_said_dead=is_said_dead)
            event = Event.EXPIRED
        else:
            record.settle(released(Hold(id=record.entry.id, fence=fence, token=str(record.token))), now)
            event = Event.RELEASED
        self._add(record, now)
        self._tally.add(record.entry.queue, event, now)
        return Reaped(id=record.entry.id, state=record.state, worker=worker, fence=fence)

    def _move(self, id: str, move: Move, note: str, now: datetime) -> Moved:
        record = self._index.records.get(id)
        if record is None:
            return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
        refused = refusal(move, record.state, cancel_requested=record.cancel_requested)
        if refused is None and move is Move.RETRY and self._index.key_holder(record.entry.queue, record.entry.key):
            refused = Refusal.KEY_TAKEN
        if refused is None:
            self._take_out(record)
            if move is Move.RETRY:
                record.retry(note, now)
            else:
                record.cancel(note, now)
            self._add(record, now)
            self._tally.add(record.entry.queue, Event.OPERATOR, now)
        return Moved(id=id, state=record.state, refusal=refused)

    def _standing(
        self, record: Record, queues: Sequence[str] | None, types: Sequence[str] | None, now: datetime
    ) -> Standing:
        is_due = record.state is State.QUEUED and record.run_at <= now
        return Standing(
            now=now,
            job=record.job(),
            is_paused=record.entry.queue in self._index.paused,
            ahead=self._index.number_ahead(record, queues, types, now) if is_due else 0,
            holder=self._registry.known(str(record.worker), now) if record.state is State.RUNNING else None,
        )

    def _delete(self, id: str) -> Moved:
        record = self._index.records.get(id)
        if record is None:
            return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
        if record.state not in DELETABLE:
            return Moved(id=id, state=record.state, refusal=Refusal.STATE)
        self._forget(record)
        return Moved(id=id, state=None)

    def _forget(self, record: Record) -> None:
        self._journal.note(record)
        self._index.forget(record)
        self._catalogue.remove(record.sequence)


_named: dict[str, Memory] = {}
_naming = threading.Lock()


def open_memory(name: str) -> Memory:
    """Return the store of this name, shared by all who name it in this process; without a name, a new one."""
    if not name:
        return Memory()
    with _naming:
        return _named.setdefault(name, Memory())
