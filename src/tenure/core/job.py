"""What a job is: as its enqueuer writes it, as it enters a store, and as a store shows it."""

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
"""How many endings a job remembers; the number of older ones is kept."""

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
    """How a claim ended; `operator` marks what was done to the job by hand."""

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
    """One line of a job's history: a claim that ended without completing, or a hand that moved the job."""

    outcome: Outcome
    fence: int
    ended_at: datetime
    token: str | None = None
    worker: str | None = None
    claimed_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the holder says it has come."""

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
    """A job as it enters a store: every option decided and checked, the payload encoded.

    It is due `delay` seconds from now by the store's clock, unless `run_at` names the moment.
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
    """A job to be enqueued. `delay` counts from now by the store's clock; `run_at` is a moment of your own."""

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
        """Return the job as it enters a store, under its own id if it has one, or raise for what cannot be used."""
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
    """Return how long a run may take, or None for no limit."""
    return None if value is None else checks.seconds("timeout", value, SHORTEST_TIMEOUT, LONGEST_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the store showed it: a value, which does not change when the job does.

    `worker` holds the job while it runs, and is the one that completed it afterwards. `started_at` is when it was
    last claimed. `attempts` counts claims (those given back do not count); `crashes`, leases that ran out.
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
        """What went wrong so far, oldest first."""
        return [
            ending.error
            for ending in self.history
            if ending.error is not None and ending.outcome is not Outcome.OPERATOR
        ]


build_job = fast_constructor(Job)
"""Builds a job of its fields in their order, for stores that show many."""
