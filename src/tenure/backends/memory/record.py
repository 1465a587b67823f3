"""A job in memory, and the changes that the operations make to it."""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from operator import attrgetter

from tenure.core.job import FINISHED, HISTORY_KEPT, Ending, Job, JobRecord, Outcome, Progress, State, build_job
from tenure.core.operations import ClaimRequest, Extension, Hold, Settlement, WorkerInfo
from tenure.core.payload import decode_or_text
from tenure.core.transitions import RULES, apply_cancel_request, expiry_note, is_exhausted, next_state


@dataclass(slots=True, kw_only=True, eq=False)
class StoredJob:
    """A mutable job. The caller holds the store's lock and keeps the index up to date."""

    record: JobRecord
    sequence: int
    created_at: datetime
    run_at: datetime
    state: State = State.QUEUED
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
    history: tuple[Ending, ...] = ()
    history_dropped: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def claim_order(self) -> tuple[int, datetime, int, str]:
        """The sort key among due jobs, with the id."""
        return -self.record.priority, self.run_at, self.sequence, self.record.id

    @property
    def time_order(self) -> tuple[datetime, int, str]:
        """The sort key by time, with the id."""
        return self.run_at, self.sequence, self.record.id

    def snapshot(self) -> tuple[object, ...]:
        """Return the values of all mutable fields, for `restore`."""
        values: tuple[object, ...] = _mutable_values(self)
        return values

    def restore(self, snapshot: tuple[object, ...]) -> None:
        for name, value in zip(MUTABLE_FIELDS, snapshot, strict=True):
            setattr(self, name, value)

    def is_held_by(self, hold: Hold) -> bool:
        return self.state is State.RUNNING and self.fence == hold.fence and self.token == hold.token

    def landed_before(self, settlement: Settlement) -> bool:
        """Return whether the same settlement landed before."""
        expected = settlement.hold.fence, settlement.hold.token, settlement.outcome
        if settlement.outcome is Outcome.COMPLETED:
            return self.state is State.COMPLETED and (self.fence, self.token, Outcome.COMPLETED) == expected
        return any((ending.fence, ending.token, ending.outcome) == expected for ending in self.history)

    def take(self, request: ClaimRequest, now: datetime) -> None:
        self.state = State.RUNNING
        self.fence += 1
        self.attempts += 1
        self.token = request.token
        self.worker = request.worker
        self.leased_until = now + timedelta(seconds=request.lease)
        self.started_at = now
        self.progress = None

    def extend(self, extension: Extension, now: datetime) -> None:
        until = now + timedelta(seconds=extension.lease)
        if self.leased_until is None or until > self.leased_until:
            self.leased_until = until
        if extension.progress is not None:
            self.progress = extension.progress

    def settle(self, settlement: Settlement, now: datetime) -> None:
        self.attempts += settlement.attempts
        self.result = settlement.result
        self.result_dropped = settlement.result_dropped
        state = apply_cancel_request(settlement.state, cancel_requested=self.cancel_requested)
        if settlement.delay is not None and state is State.QUEUED:
            self.run_at = now + timedelta(seconds=settlement.delay)
        self._end(settlement.outcome, state, settlement.error, now)

    def expire(self, registered: WorkerInfo | None, now: datetime, *, is_reported_dead: bool) -> None:
        """End the claim of a holder presumed dead; `registered` is its registry entry."""
        self.crashes += RULES[Outcome.EXPIRED].crashes
        spent = is_exhausted(self.attempts, self.record.max_attempts) or is_exhausted(
            self.crashes, self.record.max_crashes
        )
        state = next_state(Outcome.EXPIRED, exhausted=spent, cancel_requested=self.cancel_requested)
        note = expiry_note(
            str(self.worker),
            claimed_at=self.started_at or now,
            leased_until=self.leased_until or now,
            registered=registered,
            is_reported_dead=is_reported_dead,
        )
        self._end(Outcome.EXPIRED, state, note, now)

    def retry(self, note: str, now: datetime) -> None:
        self._record_move(note, now)
        self.state = State.QUEUED
        self.run_at = now
        self.attempts = self.crashes = 0
        self.progress = self.finished_at = None

    def cancel(self, note: str, now: datetime) -> None:
        """Cancel a queued job at once; set the cancel request of a running job."""
        self._record_move(note, now)
        if self.state is State.RUNNING:
            self.cancel_requested = True
        else:
            self.state = State.CANCELLED
            self.finished_at = now

    def job(self) -> Job:
        record = self.record
        return build_job(
            record.id,
            record.type,
            decode_or_text(record.payload),
            record.queue,
            record.key,
            record.priority,
            self.run_at,
            self.state,
            self.attempts,
            self.crashes,
            record.max_attempts,
            record.max_crashes,
            record.timeout,
            self.fence,
            self.worker,
            self.leased_until,
            self.progress,
            self.cancel_requested,
            None if self.result is None else decode_or_text(self.result),
            self.result_dropped,
            self.history,
            self.history_dropped,
            dict(record.meta),
            self.created_at,
            self.started_at,
            self.finished_at,
        )

    def _end(self, outcome: Outcome, state: State, error: str | None, now: datetime) -> None:
        if outcome is not Outcome.COMPLETED:
            self._add_history(
                Ending(
                    outcome=outcome,
                    fence=self.fence,
                    token=self.token,
                    worker=self.worker,
                    claimed_at=self.started_at,
                    ended_at=now,
                    error=error,
                )
            )
            # A completed job keeps both: the token identifies a resent settlement, the worker completed the job.
            self.token = self.worker = None
        self.state = state
        self.leased_until = None
        self.cancel_requested = False
        self.finished_at = now if state in FINISHED else None

    def _record_move(self, note: str, now: datetime) -> None:
        self._add_history(Ending(outcome=Outcome.OPERATOR, fence=self.fence, ended_at=now, error=note))

    def _add_history(self, ending: Ending) -> None:
        self.history += (ending,)
        if len(self.history) > HISTORY_KEPT:
            self.history = self.history[1:]
            self.history_dropped += 1


MUTABLE_FIELDS = tuple(each.name for each in fields(StoredJob) if each.name not in {"record", "sequence", "created_at"})
_mutable_values = attrgetter(*MUTABLE_FIELDS)
