"""Requests to a store and their results, as plain values.

Requests carry durations, never timestamps of the client's clock.
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
"""Limit of jobs in one enqueue request, which stores all of them or none."""
LARGEST_BATCH = 1_000
"""Limit of jobs in any other request or result."""


def check_lease(value: Seconds) -> float:
    return checks.seconds("lease", value, SHORTEST_LEASE, LONGEST_LEASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The id of the stored job. `created` is False if the job was stored before this request."""

    id: str
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The version of a store's schema before the migration, 0 for none, and now."""

    before: int
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One time of a schedule, and the job to enqueue for it."""

    at: datetime
    record: JobRecord

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", checks.timestamp("at", self.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """The last slot of a schedule that got a job, the ids of the jobs of this request, and the store's time."""

    now: datetime
    last_at: datetime
    ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Which jobs to claim, for which worker, and for how long.

    `queues` and `types` of None mean all. `token` is random and new for each request; a repeated request has the same
    token. `hint` comes from the last result; None asks for an exact result.
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
    """The claimed jobs, and a hint for the next request. Equality ignores the hint.

    `is_cut`: the claim ended early, so fewer jobs than requested do not mean that no more are due.
    """

    jobs: list[Job]
    hint: object = field(default=None, compare=False)
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A holder's proof of its claim: the job's id, the fence of the claim, and the token of the claim request."""

    id: str
    fence: int
    token: str


def check_hold(id: object, fence: object, token: object) -> Hold:
    """Check the parts of a hold and build it. The id may be the key of a row, so any text is valid."""
    if not isinstance(id, str):
        raise ConfigurationError(f"id must be a string, not {checks.short_repr(id)}")
    return Hold(
        id=checks.storable_text("id", id),
        fence=checks.integer("fence", fence, 1, 2**63 - 1),
        token=checks.name("token", token),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Extend a lease to at least `lease` seconds from now, and optionally store the progress."""

    hold: Hold
    lease: float
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_lease(self.lease)


class HoldStatus(StrEnum):
    """The result of an extension."""

    HELD = "held"
    CANCEL_REQUESTED = "cancel requested"
    LOST = "lost"
    BUSY = "busy"
    """Another transaction has locked the job, or slow writes to other rows left no time. Send the extension again."""
    REJECTED = "rejected"
    """The user's table rejects the write. Nothing changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of a claim, decided by the client; built by `core.transitions`.

    `state` is the next state of the job, unless a cancel was requested: then the job becomes cancelled, except by a
    completion. `delay` of None keeps the job's `run_at`. `found_done` marks a completion without work, because the
    output already existed.
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


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The result of a settlement that neither landed nor was lost. False as a condition.

    Without a `rejection`, the job is busy. The `rejection` is the message with which the user's
    table rejected the write; `is_failed` tells whether the row failed with this message instead.

    With `may_retry`, nothing changed, and the same settlement may land later: send it again. Without it, the row has
    failed, or its table rejects this too, and the row stays running until its lease expires.
    """

    rejection: str | None = None
    is_failed: bool = False
    may_retry: bool = False

    def __bool__(self) -> bool:
        return False


BUSY = Unsettled(may_retry=True)
"""Another transaction has locked the job, or slow writes to other rows left no time."""

Settled = bool | Unsettled
"""The result of a settlement: True if it landed, False if the claim is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """A job whose claim was reaped: its new state, and the worker and fence of the reaped claim."""

    id: str
    state: State
    worker: str
    fence: int


class Move(StrEnum):
    """A change of state by an operator."""

    RETRY = "retry"
    CANCEL = "cancel"


class Refusal(StrEnum):
    """Why a job was not moved or deleted."""

    UNKNOWN = "no such job"
    STATE = "its state does not allow it"
    KEY_TAKEN = "its key is taken by a live job"
    CANCEL_REQUESTED = "cancel already requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The result of a move or delete for one job: its current state, and the refusal if nothing changed."""

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
    """Which jobs to return, in enqueue order. A job must match every condition that is not None.

    `error` is a substring of the job's last error. `since` is the greatest age in seconds, counted from the time when
    the job finished, or was enqueued if it has not finished. `due=True` selects queued jobs that are due, `due=False`
    those that are scheduled for later.
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
    """A page of jobs, and the cursor of the next page. None marks the last page; a short page need not be the last."""

    jobs: list[Job]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """Which finished jobs to delete: those that finished at least `older_than` seconds ago."""

    older_than: float
    states: frozenset[State] = FINISHED
    queues: tuple[str, ...] | None = None
    limit: int = LARGEST_BATCH

    def __post_init__(self) -> None:
        checks.seconds("older_than", self.older_than)
        checks.integer("limit", self.limit, 1, LARGEST_BATCH)


STUCK_AFTER = 120.0
"""Seconds after the end of its lease from which a running row counts as stuck: any worker would have reaped it."""

StatsColumn = Literal[
    "due", "scheduled", "running", "completed", "failed", "cancelled", "recovered", "prevented", "stuck"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRow:
    """Number of jobs of one queue and type in each state; a queued job counts as due or scheduled.

    `recovered` and `prevented` count completed rows of a table. `recovered`: the holder died after the work was done,
    and the reap step found the output. `prevented`: the next holder found the output before it ran the handler.
    `stuck` counts running rows of a table whose lease expired `STUCK_AFTER` seconds ago or earlier: no worker claims
    from the table, or the table rejects every end of these claims.
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
    stuck: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A snapshot of the store: counts by queue and type, and the paused queues."""

    rows: tuple[StatsRow, ...] = ()
    paused: tuple[str, ...] = ()

    def total(self, column: StatsColumn, *, queue: str | None = None) -> int:
        """Sum a column over all queues, or over `queue`."""
        checks.choice("column", column, get_args(StatsColumn))
        return sum(getattr(row, column) for row in self.rows if queue in {None, row.queue})


class Event(StrEnum):
    """Events that `counts` counts: the outcomes of claims, and events without an outcome."""

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
    """A settlement was rejected because the sender no longer held the claim."""


COUNTS_KEPT = 86_400.0
"""Seconds for which a store keeps counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How often an event occurred in a queue within one minute."""

    minute_at: datetime
    queue: str
    event: Event
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A worker's heartbeat. `quiet_for`: how many seconds its event loop or claimer has been blocked.

    A `concurrency` of 0 means that the worker is stopping: it finishes the jobs that it holds, and claims no more.
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
"""Seconds for which the registry keeps a worker without heartbeats, so that the history of a reaped job can name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo(Heartbeat):
    """A worker as recorded by its last heartbeat. A live worker does not prove that a claim is still valid."""

    started_at: datetime
    beat_at: datetime
    holding: int = 0

    def takes(self, queue: str, type: str) -> bool:
        """Return whether the worker claims jobs of this queue and type."""
        has_type = self.types is None or type in self.types
        return not self.is_stopping and has_type and (self.queues is None or queue in self.queues)

    @property
    def is_stopping(self) -> bool:
        """Whether the worker finishes its jobs and claims no more."""
        return self.concurrency == 0

    @classmethod
    def from_heartbeat(
        cls, beat: Heartbeat, *, started_at: datetime, beat_at: datetime, holding: int = 0
    ) -> "WorkerInfo":
        fields = {name: getattr(beat, name) for name in Heartbeat.__slots__}
        return cls(**fields, started_at=started_at, beat_at=beat_at, holding=holding)


MAX_AHEAD_COUNTED = 10_000
"""Limit up to which a store counts the jobs ahead of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOutlook:
    """A job at the time `now` of the store's clock, and the facts that decide when the job is claimed.

    `is_paused` tells whether the job's queue is paused. `matches_where` tells whether the `where` of a table selects
    the row. `ahead` is the number of jobs that are claimed before this one, counted up to `MAX_AHEAD_COUNTED`.
    `holder` is the worker that holds the job, if it is registered; its `holding` is not filled in.
    """

    now: datetime
    job: Job
    is_paused: bool = False
    matches_where: bool = True
    ahead: int = 0
    holder: WorkerInfo | None = None
