"""The indexes of the memory store, so that no operation has to scan all jobs.

The index reflects the current state of a job: the job is removed before a change and added again after it. In
`jobs` the job stays until it is deleted.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from tenure.backends.memory.lane import Lane
from tenure.backends.memory.priority_queue import PriorityQueue, pop_in_order
from tenure.backends.memory.record import StoredJob
from tenure.backends.protocol import SCAN, SWEEP
from tenure.core.job import LIVE, State
from tenure.core.operations import MAX_AHEAD_COUNTED, StatsRow

RequestedNames = Sequence[str] | None


class JobIndex:
    def __init__(self) -> None:
        self.jobs: dict[str, StoredJob] = {}
        self.paused: set[str] = set()
        self._lanes: dict[str, dict[str, Lane]] = defaultdict(lambda: defaultdict(Lane))
        self._leases_by_expiry = PriorityQueue()
        self._by_token: dict[str | None, dict[str, StoredJob]] = defaultdict(dict)
        self._by_worker: dict[str | None, dict[str, StoredJob]] = defaultdict(dict)
        self._by_key: dict[tuple[str, str], str] = {}
        self._finished: dict[tuple[str, State], PriorityQueue] = defaultdict(PriorityQueue)
        self._state_counts: dict[tuple[str, str], Counter[State]] = defaultdict(Counter)

    def add(self, job: StoredJob, now: datetime) -> None:
        record, id = job.record, job.record.id
        self.jobs[id] = job
        self._state_counts[record.queue, record.type][job.state] += 1
        if record.key is not None and job.state in LIVE:
            self._by_key[record.queue, record.key] = id
        if job.state is State.QUEUED:
            self._lanes[record.queue][record.type].put(job, now)
        elif job.state is State.RUNNING:
            self.index_lease(job)
            self._by_token[job.token][id] = job
            self._by_worker[job.worker][id] = job
        else:
            self._finished[record.queue, job.state].put((job.finished_at, job.sequence, id))

    def remove(self, job: StoredJob) -> None:
        record, id = job.record, job.record.id
        self._state_counts[record.queue, record.type][job.state] -= 1
        if record.key is not None and job.state in LIVE:
            del self._by_key[record.queue, record.key]
        if job.state is State.QUEUED:
            self._lanes[record.queue][record.type].discard(id)
            self._drop_lane_if_empty(record.queue, record.type)
        elif job.state is State.RUNNING:
            self._leases_by_expiry.discard(id)
            _remove_from_group(self._by_token, job.token, id)
            _remove_from_group(self._by_worker, job.worker, id)
        else:
            finished = self._finished[record.queue, job.state]
            finished.discard(id)
            if not finished:
                del self._finished[record.queue, job.state]

    def delete(self, job: StoredJob) -> None:
        """Delete a job, and the counter of its queue and type if no jobs are left there."""
        self.remove(job)
        del self.jobs[job.record.id]
        if not self._state_counts[job.record.queue, job.record.type].total():
            del self._state_counts[job.record.queue, job.record.type]

    def index_lease(self, job: StoredJob) -> None:
        """Sort a running job by the time at which its lease expires."""
        self._leases_by_expiry.put((job.leased_until, job.sequence, job.record.id))

    def key_holder(self, queue: str, key: str | None) -> str | None:
        """Return the id of the live job with this key."""
        return None if key is None else self._by_key.get((queue, key))

    def held_by_token(self, token: str) -> list[StoredJob]:
        return list(self._by_token.get(token, {}).values())

    def held_by_worker(self, worker: str) -> list[StoredJob]:
        return list(self._by_worker.get(worker, {}).values())

    def first_expired(self, now: datetime) -> StoredJob | None:
        """Return the running job whose lease expired first, or None."""
        first = self._leases_by_expiry.first()
        return None if first is None or first[0] > now else self.jobs[first[-1]]

    def pop_finished(
        self, until: datetime, states: Collection[State], queues: RequestedNames, limit: int
    ) -> list[StoredJob]:
        """Pop the jobs that finished up to a time, the oldest first. The caller must delete them."""
        finished = [
            jobs
            for (queue, state), jobs in self._finished.items()
            if state in states and (queues is None or queue in queues)
        ]
        return [self.jobs[id] for id in pop_in_order(finished, limit, until=until)]

    def pop_due(self, queues: RequestedNames, types: RequestedNames, now: datetime, limit: int) -> list[StoredJob]:
        """Remove the first due jobs of these queues and types, and return them in claim order.

        Their keys stay taken: a claimed job is still live.
        """
        jobs = [self.jobs[id] for id in pop_in_order(self._promoted_lanes(queues, types, now), limit)]
        for (queue, type), number in Counter((each.record.queue, each.record.type) for each in jobs).items():
            self._state_counts[queue, type][State.QUEUED] -= number
            self._drop_lane_if_empty(queue, type)
        return jobs

    def has_due(self, queues: RequestedNames, types: RequestedNames, now: datetime) -> bool:
        return any(len(lane.due) for lane in self._promoted_lanes(queues, types, now))

    def next_at(self, queues: RequestedNames, types: RequestedNames) -> datetime | None:
        """Return the time at which the next scheduled job becomes due or the next lease expires."""
        waiting = [self._leases_by_expiry, *(lane.scheduled for lane in self._unpaused_lanes(queues, types))]
        return min((first[0] for each in waiting if (first := each.first()) is not None), default=None)

    def count_ahead(self, job: StoredJob, queues: RequestedNames, types: RequestedNames, now: datetime) -> int:
        """Count the due jobs of these queues and types that a claim takes first, up to `MAX_AHEAD_COUNTED`."""
        lanes = self._unpaused_lanes(queues, types)
        self._promote(lanes, now, SCAN)
        number = 0
        for lane in lanes:
            number += lane.due.count_before(job.claim_order, MAX_AHEAD_COUNTED - number)
        return number

    def stats_rows(self, now: datetime) -> Iterator[StatsRow]:
        for (queue, type), numbers in sorted(self._state_counts.items()):
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

    def _promoted_lanes(self, queues: RequestedNames, types: RequestedNames, now: datetime) -> list[Lane]:
        """Promote the oldest due jobs, at most `SWEEP`, and return the lanes that are not paused."""
        lanes = self._unpaused_lanes(queues, types)
        self._promote(lanes, now, SWEEP)
        return lanes

    def _promote(self, lanes: Iterable[Lane], now: datetime, most: int) -> None:
        for id in pop_in_order((lane.scheduled for lane in lanes), most, until=now):
            job = self.jobs[id]
            self._lanes[job.record.queue][job.record.type].promote(job)

    def _unpaused_lanes(self, queues: RequestedNames, types: RequestedNames) -> list[Lane]:
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


def _remove_from_group(groups: dict[str | None, dict[str, StoredJob]], name: str | None, id: str) -> None:
    group = groups[name]
    del group[id]
    if not group:
        del groups[name]
