"""A second, as simple as possible implementation of the rules, to check the reference itself.

The model is one list of rows, and every operation scans it. It shares only the input and output values with the memory
store. `core.transitions` decides the content of a settlement, and has its own tests; the effect of a settlement on a
job is implemented here again.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tenure.core.job import Ending, Job, JobRecord, Outcome, Progress, State
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
    StatsRow,
    WorkerInfo,
)
from tenure.errors import KeyTaken


@dataclass
class Row:
    entry: JobRecord
    created_at: datetime
    run_at: datetime
    state: str = "queued"
    attempts: int = 0
    crashes: int = 0
    fence: int = 0
    token: str | None = None
    worker: str | None = None
    leased_until: datetime | None = None
    progress: Progress | None = None
    cancel_requested: bool = False
    result: str | None = None
    result_dropped: bool = False
    history: list[Ending] = field(default_factory=list)
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def job(self) -> Job:
        entry = self.entry
        return Job(
            id=entry.id, type=entry.type, payload=json.loads(entry.payload), queue=entry.queue, key=entry.key,
            priority=entry.priority, run_at=self.run_at, state=State(self.state), attempts=self.attempts,
            crashes=self.crashes, max_attempts=entry.max_attempts, max_crashes=entry.max_crashes,
            timeout=entry.timeout, fence=self.fence, worker=self.worker, leased_until=self.leased_until,
            progress=self.progress, cancel_requested=self.cancel_requested,
            result=json.loads(self.result) if self.result else None, result_dropped=self.result_dropped,
            history=tuple(self.history[-50:]), history_dropped=max(0, len(self.history) - 50),
            meta=dict(entry.meta), created_at=self.created_at, started_at=self.started_at,
            finished_at=self.finished_at,
        )  # fmt: skip


class Naive:
    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.clock = clock
        self.rows: list[Row] = []
        self.paused: set[str] = set()
        self.events: list[tuple[datetime, str, str]] = []
        self.beats: dict[str, tuple[Heartbeat, datetime, datetime, datetime]] = {}
        self.last_slots: dict[str, datetime] = {}

    def enqueue(self, entries: Sequence[JobRecord]) -> list[Enqueued]:
        before, events = list(self.rows), list(self.events)
        try:
            return [self._enqueue(entry) for entry in entries]
        except KeyTaken:
            self.rows, self.events = before, events
            raise

    def _enqueue(self, entry: JobRecord) -> Enqueued:
        for row in self.rows:
            if row.entry.id == entry.id:
                return Enqueued(id=entry.id, created=False)
        holder = self._key_holder(entry)
        if holder is not None and entry.on_conflict == "raise":
            raise KeyTaken(key=str(entry.key), queue=entry.queue, id=holder.entry.id)
        if holder is not None:
            return Enqueued(id=holder.entry.id, created=False)
        now = self.clock()
        self.rows.append(Row(entry, now, entry.run_at or now + timedelta(seconds=entry.delay)))
        self._count(entry.queue, "enqueued")
        return Enqueued(id=entry.id, created=True)

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        last_at = self.last_slots.get(name, self.clock())
        moments = sorted({slot.at for slot in slots if slot.at > last_at})
        entries = [next(slot.record for slot in slots if slot.at == at) for at in moments]
        ids = [each.id for each in self.enqueue(entries)]
        self.last_slots[name] = max([last_at, *moments])
        return Scheduled(now=self.clock(), last_at=self.last_slots[name], ids=ids)

    def claim(self, request: ClaimRequest) -> Claimed:
        now = self.clock()
        held = [row for row in self._in_order() if row.state == "running" and row.token == request.token]
        if not held:
            self.reap(1_000)
            due = [
                row
                for row in self._in_order()
                if row.state == "queued"
                and row.run_at <= now
                and row.entry.queue not in self.paused
                and (request.queues is None or row.entry.queue in request.queues)
                and (request.types is None or row.entry.type in request.types)
            ]
            held = due[: request.limit]
            for row in held:
                row.state, row.worker, row.token, row.started_at = "running", request.worker, request.token, now
                row.fence, row.attempts, row.progress = row.fence + 1, row.attempts + 1, None
                row.leased_until = now + timedelta(seconds=request.lease)
                self._count(row.entry.queue, "claimed")
        return Claimed(jobs=[row.job() for row in held])

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        answers = []
        for extension in extensions:
            row = self._held(extension.hold)
            if row is None or row.leased_until is None:
                answers.append(HoldStatus.LOST)
                continue
            row.leased_until = max(row.leased_until, self.clock() + timedelta(seconds=extension.lease))
            row.progress = extension.progress or row.progress
            answers.append(HoldStatus.CANCEL_REQUESTED if row.cancel_requested else HoldStatus.HELD)
        return answers

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return [self._settle(each) for each in settlements]

    def _settle(self, settlement: Settlement) -> bool:
        hold, outcome = settlement.hold, settlement.outcome.value
        row = self._held(hold)
        if row is None:
            return self._landed_before(settlement)
        state = {"completed": "completed", "cancelled": "cancelled"}.get(outcome, "queued")
        if outcome == "failed" and settlement.delay is None:
            state = "failed"
        if row.cancel_requested and state != "completed":
            state = "cancelled"
        if outcome in {"snoozed", "released"}:
            row.attempts -= 1
        if outcome in {"failed", "retried", "snoozed"} and state == "queued":
            row.run_at = self.clock() + timedelta(seconds=settlement.delay or 0)
        row.result, row.result_dropped = settlement.result, settlement.result_dropped
        self._end(row, state, outcome, settlement.error)
        return True

    def _landed_before(self, settlement: Settlement) -> bool:
        hold = settlement.hold
        for row in self.rows:
            if row.entry.id != hold.id:
                continue
            mine = [each for each in row.history if (each.fence, each.token) == (hold.fence, hold.token)]
            if any(each.outcome == settlement.outcome for each in mine):
                return True
            if settlement.outcome == row.state == "completed" and (row.fence, row.token) == (hold.fence, hold.token):
                return True
            self._count(row.entry.queue, "refused")
        return False

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        return self.settle(settlements), self.claim(request)

    def reap(
        self, limit: int = 1_000, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        now = self.clock()
        running = sorted((row for row in self.rows if row.state == "running"), key=lambda row: row.leased_until or now)
        dead = [row for row in running if (row.leased_until or now) <= now] if worker is None else running
        answers = []
        for row in [row for row in dead if worker in {None, row.worker}][:limit]:
            held_by = str(row.worker)
            if worker is not None and started is not None and row.entry.id not in started:
                row.attempts -= 1
                state = "cancelled" if row.cancel_requested else "queued"
                self._end(row, state, "released", None)
                answers.append(Reaped(id=row.entry.id, state=State(state), worker=held_by, fence=row.fence))
                continue
            row.crashes += 1
            is_spent = row.attempts == row.entry.max_attempts or row.crashes >= row.entry.max_crashes
            state = "cancelled" if row.cancel_requested else "failed" if is_spent else "queued"
            self._end(row, state, "expired", self._evidence(row, is_said_dead=worker is not None))
            answers.append(Reaped(id=row.entry.id, state=State(state), worker=held_by, fence=row.fence))
        return answers

    def _evidence(self, row: Row, *, is_said_dead: bool) -> str:
        claimed = f"claimed the job at {str(row.started_at).replace(' ', 'T')}"
        ran_out = f"lease expired at {str(row.leased_until).replace(' ', 'T')}; worker '{row.worker}' {claimed}"
        text = f"worker '{row.worker}' was reported dead; it {claimed}" if is_said_dead else ran_out
        if self._is_remembered(str(row.worker)):
            beat, _, beat_at, _ = self.beats[str(row.worker)]
            text += f"; last heartbeat at {str(beat_at).replace(' ', 'T')}"
            text += f" (host '{beat.host}', pid {beat.pid})"
        return text

    def _is_remembered(self, worker: str) -> bool:
        return worker in self.beats and self.beats[worker][3] + timedelta(days=1) > self.clock()

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        return [self._move(id, move, reason) for id in ids]

    def _move(self, id: str, move: Move, reason: str | None) -> Moved:
        row = self._row(id)
        if row is None:
            return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
        allowed = {"retry": {"failed", "cancelled"}, "cancel": {"queued", "running"}}[move]
        refusal = None
        if row.state not in allowed:
            refusal = Refusal.STATE
        elif move == "cancel" and row.cancel_requested:
            refusal = Refusal.CANCEL_REQUESTED
        elif move == "retry" and self._key_holder(row.entry) is not None:
            refusal = Refusal.KEY_TAKEN
        if refusal is None:
            now = self.clock()
            note = f"{move}: {reason}" if reason else str(move)
            row.history.append(Ending(outcome=Outcome.OPERATOR, fence=row.fence, ended_at=now, error=note))
            self._count(row.entry.queue, "operator")
            if move == "retry":
                row.state, row.run_at, row.attempts, row.crashes = "queued", now, 0, 0
                row.finished_at = row.progress = None
            elif row.state == "queued":
                row.state, row.finished_at = "cancelled", now
            else:
                row.cancel_requested = True
        return Moved(id=id, state=State(row.state), refusal=refusal)

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        answers = []
        for id in ids:
            row = self._row(id)
            if row is None:
                answers.append(Moved(id=id, state=None, refusal=Refusal.UNKNOWN))
            elif row.state in {"queued", "running"}:
                answers.append(Moved(id=id, state=State(row.state), refusal=Refusal.STATE))
            else:
                self.rows.remove(row)
                answers.append(Moved(id=id, state=None))
        return answers

    def purge(self, purge: Purge) -> int:
        before = self.clock() - timedelta(seconds=purge.older_than)
        old = [
            row
            for row in self.rows
            if row.finished_at is not None
            and row.finished_at <= before
            and row.state in purge.states
            and (purge.queues is None or row.entry.queue in purge.queues)
        ]
        old.sort(key=lambda row: row.finished_at or before)
        for row in old[: purge.limit]:
            self.rows.remove(row)
        return len(old[: purge.limit])

    def pause(self, queues: Sequence[str]) -> None:
        self.paused |= set(queues)

    def resume(self, queues: Sequence[str]) -> None:
        self.paused -= set(queues)

    def find(self, query: Query) -> Page:
        jobs = [row.job() for row in self.rows if query.ids is None or row.entry.id in query.ids]
        if query.newest_first:
            jobs.reverse()
        jobs = [job for job in jobs if self._matches(job, query)]
        start = int(query.cursor or 0)
        end = start + query.limit
        return Page(jobs=jobs[start:end], cursor=str(end) if end < len(jobs) else None)

    def _matches(self, job: Job, query: Query) -> bool:
        now = self.clock()
        errors = [each.error for each in job.history if each.error is not None and each.outcome != "operator"]
        wanted: list[tuple[Any, Callable[[Any], bool]]] = [
            (query.states, lambda states: job.state in states),
            (query.queues, lambda queues: job.queue in queues),
            (query.types, lambda types: job.type in types),
            (query.key, lambda key: job.key == key),
            (query.worker, lambda worker: job.worker == worker),
            (query.error, lambda error: bool(errors) and error in errors[-1]),
            (query.attempts_over, lambda number: job.attempts > number),
            (query.due, lambda due: job.state == "queued" and due == (job.run_at <= now)),
            (query.since, lambda since: (job.finished_at or job.created_at) >= now - timedelta(seconds=since)),
        ]
        return all(holds(value) for value, holds in wanted if value is not None)

    def stats(self) -> Stats:
        now = self.clock()
        rows = []
        for queue, type in sorted({(row.entry.queue, row.entry.type) for row in self.rows}):
            mine = [row for row in self.rows if (row.entry.queue, row.entry.type) == (queue, type)]
            due = [row.run_at for row in mine if row.state == "queued" and row.run_at <= now]
            states = Counter(row.state for row in mine)
            rows.append(
                StatsRow(
                    queue=queue,
                    type=type,
                    due=len(due),
                    scheduled=states["queued"] - len(due),
                    running=states["running"],
                    completed=states["completed"],
                    failed=states["failed"],
                    cancelled=states["cancelled"],
                    oldest_due_at=min(due, default=None),
                )
            )
        return Stats(rows=tuple(rows), paused=tuple(sorted(self.paused)))

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        now, row = self.clock(), self._row(id)
        if row is None:
            return None
        is_known = row.state == "running" and self._is_remembered(str(row.worker))
        beat, started_at, beat_at, _ = self.beats[str(row.worker)] if is_known else (None, now, now, now)
        due = [each for each in self._in_order() if each.state == "queued" and each.run_at <= now]
        before = due[: due.index(row)] if row in due else []
        ahead = [
            each
            for each in before
            if each.entry.queue not in self.paused
            and (queues is None or each.entry.queue in queues)
            and (types is None or each.entry.type in types)
        ]
        return ClaimOutlook(
            now=now,
            job=row.job(),
            is_paused=row.entry.queue in self.paused,
            ahead=len(ahead),
            holder=None if beat is None else WorkerInfo.from_heartbeat(beat, started_at=started_at, beat_at=beat_at),
        )

    def counts(self, since: float) -> list[Count]:
        start = (self.clock() - timedelta(seconds=since)).replace(second=0, microsecond=0)
        minutes = Counter((at.replace(second=0, microsecond=0), queue, event) for at, queue, event in self.events)
        return [
            Count(minute_at=at, queue=queue, event=Event(event), number=number)
            for (at, queue, event), number in sorted(minutes.items())
            if at >= start
        ]

    def beat(self, beat: Heartbeat, ttl: float) -> None:
        now = self.clock()
        started_at = next((each.started_at for each in self.workers() if each.name == beat.name), now)
        self.beats[beat.name] = beat, started_at, now, now + timedelta(seconds=ttl)
        if ttl == 0:
            del self.beats[beat.name]

    def migrate(self) -> Schema:
        return Schema(before=1, now=1)

    def workers(self) -> list[WorkerInfo]:
        return [
            WorkerInfo.from_heartbeat(
                beat,
                started_at=started_at,
                beat_at=beat_at,
                holding=sum(row.state == "running" and row.worker == name for row in self.rows),
            )
            for name, (beat, started_at, beat_at, until) in sorted(self.beats.items())
            if until > self.clock()
        ]

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        pass

    def close(self) -> None:
        pass

    def _end(self, row: Row, state: str, outcome: str, error: str | None) -> None:
        now = self.clock()
        self._count(row.entry.queue, outcome)
        if outcome != "completed":
            row.history.append(
                Ending(
                    outcome=Outcome(outcome),
                    fence=row.fence,
                    token=row.token,
                    worker=row.worker,
                    claimed_at=row.started_at,
                    ended_at=now,
                    error=error,
                )
            )
            row.token = row.worker = None
        row.state, row.leased_until, row.cancel_requested = state, None, False
        row.finished_at = None if state == "queued" else now

    def _in_order(self) -> list[Row]:
        return sorted(self.rows, key=lambda row: (-row.entry.priority, row.run_at))

    def _row(self, id: str) -> Row | None:
        return next((row for row in self.rows if row.entry.id == id), None)

    def _held(self, hold: Hold) -> Row | None:
        row = self._row(hold.id)
        is_held = row is not None and row.state == "running" and (row.fence, row.token) == (hold.fence, hold.token)
        return row if is_held else None

    def _key_holder(self, entry: JobRecord) -> Row | None:
        if entry.key is None:
            return None
        live = [row for row in self.rows if row.state in {"queued", "running"}]
        return next((row for row in live if (row.entry.queue, row.entry.key) == (entry.queue, entry.key)), None)

    def _count(self, queue: str, event: str) -> None:
        self.events.append((self.clock(), queue, event))
