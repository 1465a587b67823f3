"""Jobs in three forms: to be enqueued (`NewJob`), as sent to a store (`JobRecord`), as read from a store (`Job`)."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from tenure.core import checks
from tenure.core.fast_dataclass import fast_constructor
from tenure.core.payload import encode_payload
from tenure.errors import ConfigurationError

HISTORY_KEPT = 50
"""Number of endings in a job's history. Of older endings a job keeps only the count."""

SMALLEST_PRIORITY, GREATEST_PRIORITY = -32_768, 32_767
GREATEST_ATTEMPTS = 1_000_000
SHORTEST_TIMEOUT, LONGEST_TIMEOUT = 0.001, 30 * 86_400.0

OnConflict = Literal["keep", "raise"]


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


LIVE = frozenset({State.QUEUED, State.RUNNING})
FINISHED = frozenset(State) - LIVE


class Outcome(StrEnum):
    """How a claim ended. `operator` marks a retry or cancel by an operator."""

    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One line of a job's history: a claim that ended without completing the job, or a move by an operator."""

    outcome: Outcome
    fence: int
    ended_at: datetime
    token: str | None = None
    worker: str | None = None
    claimed_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of the work, as reported by the holder."""

    done: float
    of: float | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        checks.number("done", self.done)
        if self.of is not None:
            checks.number("of", self.of)
        if self.note is not None:
            object.__setattr__(self, "note", checks.error_text("note", self.note))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as sent to a store: all options set and checked, the payload encoded.

    The job is due at `run_at`, or, if that is None, `delay` seconds from now by the store's clock.
    """

    id: str
    type: str
    payload: str
    queue: str
    key: str | None
    on_conflict: OnConflict
    priority: int
    run_at: datetime | None
    delay: float
    max_attempts: int | None
    max_crashes: int
    timeout: float | None
    meta: Mapping[str, str] = field(hash=False)


@checks.reject_unknown_fields
@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be enqueued. The store's clock counts `delay` from now; `run_at` is an absolute time."""

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict, hash=False)
    _: KW_ONLY
    queue: str = "default"
    priority: int = 0
    run_at: datetime | None = None
    delay: checks.Seconds | None = None
    key: str | None = None
    on_conflict: OnConflict = "keep"
    max_attempts: int | None = 5
    max_crashes: int = 3
    timeout: checks.Seconds | None = None
    meta: Mapping[str, str] = field(default_factory=dict, hash=False)
    id: str | None = None

    def record(self, id: str) -> JobRecord:
        """Check all options and build the record for a store. `id` applies if the job has no id of its own."""
        if self.run_at is not None and self.delay is not None:
            raise ConfigurationError(f"pass run_at or delay, not both: run_at={self.run_at!r}, delay={self.delay!r}")
        return JobRecord(
            id=id if self.id is None else checks.name("id", self.id),
            type=checks.name("type", self.type),
            payload=encode_payload(self.payload),
            queue=checks.name("queue", self.queue),
            key=checks.optional(checks.name, "key", self.key),
            on_conflict="raise"
            if checks.choice("on_conflict", self.on_conflict, ["keep", "raise"]) == "raise"
            else "keep",
            priority=checks.integer("priority", self.priority, SMALLEST_PRIORITY, GREATEST_PRIORITY),
            run_at=checks.optional(checks.timestamp, "run_at", self.run_at),
            delay=0.0 if self.delay is None else checks.seconds("delay", self.delay),
            max_attempts=(
                None
                if self.max_attempts is None
                else checks.integer("max_attempts", self.max_attempts, 1, GREATEST_ATTEMPTS)
            ),
            max_crashes=checks.integer("max_crashes", self.max_crashes, 1, GREATEST_ATTEMPTS),
            timeout=check_timeout(self.timeout),
            meta=checks.meta("meta", self.meta),
        )


def check_timeout(value: object) -> float | None:
    """Check the time limit of a run, in seconds; None means no limit."""
    return None if value is None else checks.seconds("timeout", value, SHORTEST_TIMEOUT, LONGEST_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as read from the store: an immutable snapshot.

    A payload or result that Python cannot read, such as one that other code has damaged, is its text instead.
    `worker` is the holder of a running job, and the worker that completed a completed job. `started_at` is the time of
    the last claim. `attempts` counts claims, except snoozed and released ones; `crashes` counts expired leases.
    """

    id: str
    type: str
    payload: dict[str, Any] = field(hash=False)
    queue: str
    key: str | None
    priority: int
    run_at: datetime
    state: State
    attempts: int
    crashes: int
    max_attempts: int | None
    max_crashes: int
    timeout: float | None
    fence: int
    worker: str | None
    leased_until: datetime | None
    progress: Progress | None
    cancel_requested: bool
    result: Any = field(hash=False)
    result_dropped: bool
    history: tuple[Ending, ...]
    history_dropped: int
    meta: dict[str, str] = field(hash=False)
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def errors(self) -> list[str]:
        """The errors of ended claims, oldest first."""
        return [
            ending.error
            for ending in self.history
            if ending.error is not None and ending.outcome is not Outcome.OPERATOR
        ]


build_job = fast_constructor(Job)
"""Builds a `Job` from its fields by position: faster, for stores that read many jobs."""
