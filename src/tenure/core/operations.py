"""What crosses the boundary between a client and a store: requests, all decided, and answers.

Durations cross it, never moments of the client's clock.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, get_args

from tenure.core import checks
from tenure.core.checks import Seconds
from tenure.core.job import FINISHED, Job, JobRecord, Outcome, Progress, State
from tenure.errors import ConfigurationError

SHORTEST_LEASE, LONGEST_LEASE = 1.0, 86_400.0
LARGEST_ENQUEUE = 10_000
"""How many jobs one request stores, all or none."""
LARGEST_BATCH = 1_000
"""How many jobs any other request names, takes or shows."""


def check_lease(value: Seconds) -> float:
    return checks.seconds("lease", value, SHORTEST_LEASE, LONGEST_LEASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The id under which the job is stored, and whether this request put it there."""

    id: str
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The version of a store's schema, as it was found, 0 for none, and as it is now."""

    before: int
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A moment of a schedule, and the job that it asks for."""

    at: datetime
    record: JobRecord

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", checks.timestamp("at", self.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """The last slot of a schedule that was given out, the jobs of those that this request gave out, and the time."""

    now: datetime
    last_at: datetime
    ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Which jobs to take, for whom, and for how long.

    `queues` and `types` of None mean all. `token` is random and new for each request; a request sent again carries
    the same one. `hint` is what the last answer gave, or None for an exact answer.
    """

    queues: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    limit: int = 1
    lease: float = 60.0
    worker: str
    token: str
    hint: object = None

    def __post_init__(self) -> None:
        checks.integer("limit", self.limit, 1, LARGEST_BATCH)
        check_lease(self.lease)
        checks.name("worker", self.worker)
        checks.name("token", self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The jobs that a request took, and a hint for the next one: the same answer may come with another hint."""

    jobs: list[Job]
    hint: object = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What a holder shows: the job, the fence of its claim, and the token of the request that made it."""

    id: str
    fence: int
    token: str


def check_hold(id: object, fence: object, token: object) -> Hold:
    """Return what a holder shows, or raise for what cannot be that. The id may be the key of a row, so any text."""
    if not isinstance(id, str):
        raise ConfigurationError(f"id must be a string, not {checks.short_repr(id)}")
    return Hold(
        id=checks.storable_text("id", id),
        fence=checks.integer("fence", fence, 1, 2**63 - 1),
        token=checks.name("token", token),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Prolong a lease to at least `lease` seconds from now, and say how far the work has come."""

    hold: Hold
    lease: float
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_lease(self.lease)


class HoldStatus(StrEnum):
    """What a store answers to an extension."""

    HELD = "held"
    CANCEL_REQUESTED = "cancel requested"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of a claim, already decided; built by `core.transitions`.

    `state` is the next one, but for a job that was asked to cancel: that one becomes cancelled unless it completed.
    `delay` of None keeps the job's own `run_at`. A completion that `found_done` did no work: its output was there.
    """

    hold: Hold
    outcome: Outcome
    state: State
    attempts: int = 0
    delay: float | None = None
    error: str | None = None
    result: str | None = None
    result_dropped: bool = False
    found_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """What became of a job whose holder was taken to be dead."""

    id: str
    state: State
    worker: str
    fence: int


class Move(StrEnum):
    """What an operator may do to a job that nobody else decides on."""

    RETRY = "retry"
    CANCEL = "cancel"


class Refusal(StrEnum):
    """Why a job was not moved or deleted."""

    UNKNOWN = "no such job"
    STATE = "its state does not allow it"
    KEY_TAKEN = "its key is taken by a live job"
    ASKED_BEFORE = "cancel already requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of one job: the state that it is in now, and why it was not moved if it was not."""

    id: str
    state: State | None
    refusal: Refusal | None = None

    @property
    def moved(self) -> bool:
        return self.refusal is None

    def __str__(self) -> str:
        if self.refusal is None:
            return f"{self.id}: {self.state or 'deleted'}"
        return f"{self.id}: not moved, {self.refusal}" + (f" ({self.state})" if self.state else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which jobs to show, in enqueue order; every condition that is not None must hold.

    `error` is part of the job's last error. `since` is in seconds: jobs that finished, or if they did not were
    enqueued, that recently. `due` tells queued jobs whose time has come from scheduled ones.
    """

    ids: tuple[str, ...] | None = None
    states: frozenset[State] | None = None
    queues: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    key: str | None = None
    worker: str | None = None
    error: str | None = None
    since: float | None = None
    attempts_over: int | None = None
    due: bool | None = None
    newest_first: bool = True
    limit: int = 100
    cursor: str | None = None

    def __post_init__(self) -> None:
        checks.integer("limit", self.limit, 1, LARGEST_BATCH)
        checks.integer("the number of ids", len(self.ids or ()), 0, LARGEST_BATCH)
        checks.optional(checks.storable_text, "error", self.error)
        checks.optional(checks.count, "attempts_over", self.attempts_over)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some jobs, and where to go on; only a cursor of None is the end, a short page is not."""

    jobs: list[Job]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """Which finished jobs to forget: those that ended at least `older_than` seconds ago."""

    older_than: float
    states: frozenset[State] = FINISHED
    queues: tuple[str, ...] | None = None
    limit: int = LARGEST_BATCH

    def __post_init__(self) -> None:
        checks.seconds("older_than", self.older_than)
        checks.integer("limit", self.limit, 1, LARGEST_BATCH)


StatsColumn = Literal["due", "scheduled", "running", "completed", "failed", "cancelled", "recovered", "prevented"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRow:
    """How many jobs of one queue and type are in each state; queued ones are due or scheduled.

    Of the completed rows of a table, `recovered` are those whose holder died after the work was done, which the reap
    step saw; `prevented` are those whose taker found the work done before.
    """

    queue: str
    type: str
    due: int = 0
    scheduled: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    oldest_due_at: datetime | None = None
    recovered: int = 0
    prevented: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The store at one moment, by queue and type."""

    rows: tuple[StatsRow, ...] = ()
    paused: tuple[str, ...] = ()

    def total(self, column: StatsColumn, *, queue: str | None = None) -> int:
        """Return the sum of one column over all queues, or of one."""
        checks.choice("column", column, get_args(StatsColumn))
        return sum(getattr(row, column) for row in self.rows if queue in {None, row.queue})


class Event(StrEnum):
    """What `counts` counts: the endings of claims, and what has none."""

    ENQUEUED = "enqueued"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    RELEASED = "released"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    OPERATOR = "operator"
    REFUSED = "refused"
    """A settlement by a holder that no longer was one."""


COUNTS_KEPT = 86_400.0
"""How far back the counts go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How often something happened in a queue within one minute."""

    minute_at: datetime
    queue: str
    event: Event
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life of a worker. `quiet_for` is how long ago its claim loop last turned.

    A `concurrency` of 0 says that it stops: it goes on with what it holds, and takes no more.
    """

    name: str
    host: str
    pid: int
    version: str
    concurrency: int = 1
    queues: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    quiet_for: float = 0.0

    def __post_init__(self) -> None:
        checks.name("name", self.name)
        if self.host:
            checks.name("host", self.host)
        checks.count("pid", self.pid)
        checks.count("concurrency", self.concurrency)


SILENT_WORKER_TTL = 86_400.0
"""How long a worker that is not shown any more is remembered, to tell what is known of the holder of a lost claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo(Heartbeat):
    """A worker as the store knows it, by its last sign of life. That proves nothing about a claim."""

    started_at: datetime
    beat_at: datetime
    holding: int = 0

    def takes(self, queue: str, type: str) -> bool:
        """Tell whether it claims jobs of this queue and type."""
        has_type = self.types is None or type in self.types
        return not self.is_stopping and has_type and (self.queues is None or queue in self.queues)

    @property
    def is_stopping(self) -> bool:
        """Whether it only goes on with what it holds."""
        return self.concurrency == 0

    @classmethod
    def from_heartbeat(
        cls, beat: Heartbeat, *, started_at: datetime, beat_at: datetime, holding: int = 0
    ) -> "WorkerInfo":
        fields = {name: getattr(beat, name) for name in Heartbeat.__slots__}
        return cls(**fields, started_at=started_at, beat_at=beat_at, holding=holding)


MAX_AHEAD_COUNTED = 10_000
"""Up to which the jobs ahead of another are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOutlook:
    """A job at one moment, `now` by the store's clock, and all that a claim of it depends on.

    `is_paused` is its queue. `ahead` is how many jobs a claim takes before it, up to `MOST_AHEAD`. `holder` is the
    worker that holds it, if the store knows that one; what it holds is not counted. `is_chosen` tells of a row whether
    the `where` of its table holds for it now.
    """

    now: datetime
    job: Job
    is_paused: bool = False
    matches_where: bool = True
    ahead: int = 0
    holder: WorkerInfo | None = None
