"""Every way in which the memory store finds a job, so that no operation has to scan them.

A record stands in the index as its present state says: it is removed before it changes and added after. In `records`
it stays throughout, until it is forgotten.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from tenure.backends.memory.lane import Lane
from tenure.backends.memory.priority_queue import Line, pop_in_order
from tenure.backends.memory.record import Record
from tenure.backends.protocol import SCAN, SWEEP
from tenure.core.job import LIVE, State
from tenure.core.operations import MOST_AHEAD, StatsRow

Names = Sequence[str] | None


class Index:
    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.paused: set[str] = set()
        self._lanes: dict[str, dict[str, Lane]] = defaultdict(lambda: defaultdict(Lane))
        self._leases = Line()
        self._by_token: dict[str | None, dict[str, Record]] = defaultdict(dict)
        self._by_worker: dict[str | None, dict[str, Record]] = defaultdict(dict)
        self._by_key: dict[tuple[str, str], str] = {}
        self._finished: dict[tuple[str, State], Line] = defaultdict(Line)
        self._numbers: dict[tuple[str, str], Counter[State]] = defaultdict(Counter)

    def add(self, record: Record, now: datetime) -> None:
        entry, id = record.entry, record.entry.id
        self.records[id] = record
        self._numbers[entry.queue, entry.type][record.state] += 1
        if entry.key is not None and record.state in LIVE:
            self._by_key[entry.queue, entry.key] = id
        if record.state is State.QUEUED:
            self._lanes[entry.queue][entry.type].put(record, now)
        elif record.state is State.RUNNING:
            self.note_lease(record)
            self._by_token[record.token][id] = record
            self._by_worker[record.worker][id] = record
        else:
            self._finished[entry.queue, record.state].put((record.finished_at, record.sequence, id))

    def remove(self, record: Record) -> None:
        entry, id = record.entry, record.entry.id
        self._numbers[entry.queue, entry.type][record.state] -= 1
        if entry.key is not None and record.state in LIVE:
            del self._by_key[entry.queue, entry.key]
        if record.state is State.QUEUED:
            self._lanes[entry.queue][entry.type].discard(id)
            self._drop_lane_if_empty(entry.queue, entry.type)
        elif record.state is State.RUNNING:
            self._leases.discard(id)
            _leave(self._by_token, record.token, id)
            _leave(self._by_worker, record.worker, id)
        else:
            line = self._finished[entry.queue, record.state]
            line.discard(id)
            if not line:
                del self._finished[entry.queue, record.state]

    def forget(self, record: Record) -> None:
        """Remove a job for good, and its queue and type if it was the last of them."""
        self.remove(record)
        del self.records[record.entry.id]
        if not self._numbers[record.entry.queue, record.entry.type].total():
            del self._numbers[record.entry.queue, record.entry.type]

    def note_lease(self, record: Record) -> None:
        """Put a running job where its lease says that it runs out."""
        self._leases.put((record.leased_until, record.sequence, record.entry.id))

    def key_holder(self, queue: str, key: str | None) -> str | None:
        """Return the id of the live job that has this key."""
        return None if key is None else self._by_key.get((queue, key))

    def held_by_token(self, token: str) -> list[Record]:
        return list(self._by_token.get(token, {}).values())

    def held_by_worker(self, worker: str) -> list[Record]:
        return list(self._by_worker.get(worker, {}).values())

    def expired(self, now: datetime) -> Record | None:
        """Return the running job whose lease ran out first."""
        first = self._leases.first()
        return None if first is None or first[0] > now else self.records[first[-1]]

    def finished_before(self, moment: datetime, states: Collection[State], queues: Names, limit: int) -> list[Record]:
        """Return jobs that ended up to a moment, the oldest first."""
        lines = [
            line
            for (queue, state), line in self._finished.items()
            if state in states and (queues is None or queue in queues)
        ]
        return [self.records[id] for id in pop_in_order(lines, limit, until=moment)]

    def pop_due(self, queues: Names, types: Names, now: datetime, limit: int) -> list[Record]:
        """Remove the first due jobs of these queues and types, and return them in their order.

        Their keys stay taken: what is claimed is still live.
        """
        records = [self.records[id] for id in pop_in_order(self._promoted(queues, types, now), limit)]
        for (queue, type), number in Counter((each.entry.queue, each.entry.type) for each in records).items():
            self._numbers[queue, type][State.QUEUED] -= number
            self._drop_lane_if_empty(queue, type)
        return records

    def has_due(self, queues: Names, types: Names, now: datetime) -> bool:
        return any(len(lane.due) for lane in self._promoted(queues, types, now))

    def next_at(self, queues: Names, types: Names) -> datetime | None:
        """Return when the next scheduled job comes due, or the next lease runs out."""
        lines = [self._leases, *(lane.scheduled for lane in self._open_lanes(queues, types))]
        return min((first[0] for line in lines if (first := line.first()) is not None), default=None)

    def number_ahead(self, record: Record, queues: Names, types: Names, now: datetime) -> int:
        """Return how many due jobs of these queues and types a claim takes before this one, up to `MOST_AHEAD`."""
        lanes = self._open_lanes(queues, types)
        self._promote(lanes, now, SCAN)
        number = 0
        for lane in lanes:
            number += lane.due.number_before(record.order, MOST_AHEAD - number)
        return number

    def stats_rows(self, now: datetime) -> Iterator[StatsRow]:
        for (queue, type), numbers in sorted(self._numbers.items()):
            lane = self._lanes.get(queue, {}).get(type, Lane())
            self._promote([lane], now, SCAN)
            yield StatsRow(
                queue=queue,
                type=type,
                due=len(lane.due),
                scheduled=len(lane.scheduled),
                running=numbers[State.RUNNING],
                completed=numbers[State.COMPLETED],
                failed=numbers[State.FAILED],
                cancelled=numbers[State.CANCELLED],
                oldest_due_at=lane.oldest_due_at,
            )

    def _promoted(self, queues: Names, types: Names, now: datetime) -> list[Lane]:
        """Return the lanes that may be claimed from, after letting in what came due: the oldest, at most `SWEEP`."""
        lanes = self._open_lanes(queues, types)
        self._promote(lanes, now, SWEEP)
        return lanes

    def _promote(self, lanes: Iterable[Lane], now: datetime, most: int) -> None:
        for id in pop_in_order((lane.scheduled for lane in lanes), most, until=now):
            record = self.records[id]
            self._lanes[record.entry.queue][record.entry.type].promote(record)

    def _open_lanes(self, queues: Names, types: Names) -> list[Lane]:
        found = self._lanes.items() if queues is None else ((each, self._lanes.get(each, {})) for each in queues)
        return [
            lane
            for queue, lanes in found
            if queue not in self.paused
            for lane in (lanes.values() if types is None else (lanes[each] for each in types if each in lanes))
        ]

    def _drop_lane_if_empty(self, queue: str, type: str) -> None:
        lanes = self._lanes.get(queue, {})
        if type in lanes and not lanes[type]:
            del lanes[type]
            if not lanes:
                del self._lanes[queue]


def _leave(groups: dict[str | None, dict[str, Record]], name: str | None, id: str) -> None:
    group = groups[name]
    del group[id]
    if not group:
        del groups[name]
