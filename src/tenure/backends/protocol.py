"""The contract of a store. Read this first.

An operation is **one atomic state change, already decided**: one transaction and one round trip. The decisions (which
back-off applies, whether attempts are spent) are pure functions in `core`; a store only compares and writes. Every
operation takes and returns several items at once. The results are in the order of the request.

These rules hold for every operation of every store:

- *Atomic.* The operation takes effect completely or not at all, and all clients see the effect at the same instant.
- *Fenced.* Only the **holder** of a job may extend or settle it. The holder is the client that presents the job's id,
  the fence of the latest claim and the token of the request that made this claim, while the job is running. An expired
  lease alone does not end the holding: until a client reaps the job, no other worker has run it, and the holder may
  still extend and settle.
- *The store's clock.* The store's own clock decides what is due, expired or old. An operation reads the clock once: not
  before the request arrives, and not after the effect becomes visible. A time that has been reached counts: a job is
  due at `run_at`, and a lease is expired at `leased_until`, to the microsecond. A job that a claim found due stays due
  even if the clock is set back. The constructor of a store takes an optional `clock`, for tests.
- *Repeatable.* A client may resend a request whose response was lost. The same id is the same job; the same token
  returns the same claims; a settlement that landed is reported as landed again.
- *In order.* The items of one request take effect as if sent one after another, and the results have the same order.
- *Bounded.* The work of a call depends on the size of the request, not on the number of stored jobs. A request enqueues
  at most `LARGEST_ENQUEUE` jobs; any other request names at most `LARGEST_BATCH`. A claim costs
  O(queues x types + limit), however many jobs are queued, scheduled, running, finished, or of another type.
- *Without deadlock.* A store that locks jobs one by one locks them in one fixed order, whatever the order of the
  request.
- *Independent.* A batch shares a round trip, not an outcome. Claim and reap skip a job that another transaction has
  locked; extend and settle report it as busy. If a user's table rejects a write to a row, all other items of the
  request take effect.
- *Exact names.* Two names are equal if all their characters are equal. Sorting by name is sorting by code point.
- *Thread-safe.* Any thread may call any operation at any time. After a fork the child process may call them as well, or
  gets an error that explains why it cannot.
- *Errors.* A store that is unreachable raises `StoreUnavailable`. No driver exception leaves a store.

Operations are synchronous. A hint is optional: without a hint the result is exact.

These rules hold for every job: `leased_until` is set exactly while the job runs, and `cancel_requested` is true only
then. `worker` is set while the job runs, and remains on a completed job. `finished_at` is set exactly when the job is
completed, failed or cancelled. `progress` remains until the next claim or an operator's retry. `fence` never decreases
while the job is stored.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from tenure.core.job import JobRecord
from tenure.core.operations import (
    Claimed,
    ClaimOutlook,
    ClaimRequest,
    Count,
    Enqueued,
    Extension,
    Heartbeat,
    HoldStatus,
    Move,
    Moved,
    Page,
    Purge,
    Query,
    Reaped,
    Scheduled,
    Schema,
    Settled,
    Settlement,
    Slot,
    Stats,
    WorkerInfo,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

StoreClock = Callable[[], datetime]
"""Returns the current time, with a time zone."""

SWEEP = 1_000
"""The maximum number of due jobs that one claim promotes, and of expired jobs that it reaps; oldest first.

If at most `SWEEP` jobs became due since the last claim, a claim takes exactly the first of all due jobs. After a larger
burst, the next calls promote the rest.
"""

SCAN = 10_000
"""The number of jobs that one call of `find` examines before it returns a cursor, and up to which `stats` is exact.

Also the number of due jobs not yet promoted that `explain` examines.
"""


class Claiming(Protocol):
    """The operations for claiming jobs. Both a store and a user's own table implement them."""

    def claim(self, request: ClaimRequest) -> Claimed:
        """Take due jobs for a worker.

        The claim first promotes jobs that became due and reaps expired jobs of any queue: at most `SWEEP` of each,
        oldest first. Then it takes the first `limit` due jobs of the requested queues and types, by higher priority,
        then earlier `run_at`, then enqueue order. It skips paused queues, and jobs that another claim is taking at the
        same instant. The jobs are returned in this order.

        Each taken job is running and leased to the worker for `lease` seconds; its fence and its attempts grow by 1,
        and the progress of an earlier claim is cleared. No other claim gets the job. A claim never takes more than
        `limit` jobs.

        If the token still holds jobs, the claim returns these jobs in the same order and changes nothing; it does not
        even reap. Their leases began when the token was first used, so a client that resends a request counts the lease
        from the first time it was sent. A token that holds no jobs, used before or not, claims new ones. Two
        simultaneous requests with the same token may both take jobs, but never the same job.
        """
        ...

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        """Extend the leases of held jobs, and record their progress.

        A held lease then expires `lease` seconds from now, or at its previous expiry if that is later. A progress of
        None keeps the stored progress. The result says whether the job is held, held with a cancel request, or lost. A
        lost job does not change. Neither does a job that another transaction has locked (*busy*), nor a row whose table
        rejects the write (*rejected*).
        """
        ...

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """End claims. Return True for a settlement that landed, False for a lost one, or why it is `Unsettled`.

        All fields of the job change at once. If the job has a cancel request, it becomes cancelled instead of the state
        in the settlement, unless this state is completed. A job cancelled in this way also keeps its `run_at`, while
        its attempts and its history record the outcome of the settlement. Every outcome except completed adds a line to
        the job's history, which keeps the last `HISTORY_KEPT` lines.

        A resent settlement landed if the first one did: the job is completed with this fence and token, or its history
        contains them with the same outcome. The history records a reaped claim as expired, so the settlement of its
        former holder is lost. A lost settlement changes nothing, does not affect other settlements of the request, and
        is counted as refused if the job is stored.
        """
        ...

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[Sequence[Settled], Claimed]:
        """Settle, then claim, in the same transaction and round trip.

        If a settlement is rejected, a store may settle and claim in separate transactions, or leave the claim to the
        next request: then the result has no jobs, and `is_cut`.

        If all settlements are completions and the claim has a hint, the two cannot affect each other. A store may then
        run them concurrently, in separate transactions.
        """
        ...

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        """End at most `limit` claims whose lease expired, the longest expired first.

        A reaped job keeps its attempts, and its crashes grow by 1. The job is queued again with the same `run_at`; or
        failed, if attempts or crashes are spent; or cancelled, if it has a cancel request. The history records the
        outcome as expired, with the evidence as the error (`transitions.expiry_note`): the worker, the time of the
        claim and, if the store's registry remembers the worker, its last heartbeat.

        A live lease is never reaped, unless the caller names its `worker`. Then the claims of this worker, and only
        these, are reaped, expired or not: the caller knows that the worker is dead. If the caller also names the jobs
        that the worker had `started`, only these have crashed; the others were only buffered, and are released. Without
        a worker, `started` is ignored.

        A table that can check the output completes the job instead if the output exists.
        """
        ...

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        """Retry or cancel jobs on behalf of an operator, each only from the states that allow the move.

        *Retry* queues a failed or cancelled job now, with attempts and crashes at 0 and without progress; the fence and
        the history continue. A job whose key was taken meanwhile is not moved. *Cancel* ends a queued job at once, and
        sets the cancel request of a running one. A moved job has one more line in its history: outcome `operator`, the
        current fence, and the move with its reason (`transitions.move_note`) as the error, without token, worker or
        `claimed_at`.
        """
        ...

    def find(self, query: Query) -> Page:
        """Return a page of the matching jobs, in enqueue order or the reverse.

        One call examines at most `SCAN` jobs, so a page before the end may be short or even empty; only a cursor of
        None marks the end. A job that is enqueued or deleted between two pages appears at most once. A cursor that no
        page returned raises `ConfigurationError`.
        """
        ...

    def stats(self) -> Stats:
        """Count the jobs by queue, type and state, in this order; a queue and type without jobs has no row.

        All numbers are of the same instant. A store that would have to keep counting may return `SCAN` for a larger
        number. The paused queues are sorted.
        """
        ...

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        """Return the facts that decide when a claim takes this job, all of the same instant; None for an unknown job.

        For a due job, `ahead` counts the due jobs that a claim of these queues and types takes first, up to
        `MAX_AHEAD_COUNTED`; paused queues do not count. For a job that is not due, `ahead` is 0. Expired jobs that are
        not yet reaped do not count. If more than `SCAN` jobs became due since the last claim, some of these may not be
        counted.

        `holder` is the registry entry of the job's worker while the job runs, live or silent; None if there is no
        entry, or if the store has no registry.
        """
        ...

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        """Block until a claim may find a job, or for `timeout` seconds of real time.

        The result is a hint: `wait` may return late, or early after a change that might have concerned the caller; but
        it must not always return at once. One new job wakes about one waiter.
        """
        ...

    def close(self) -> None:
        """Release the resources of this handle. A second call does nothing; a closed handle must not be used."""
        ...


@runtime_checkable
class Backend(Claiming, Protocol):
    """A store of jobs: claiming, enqueueing and maintenance."""

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        """Store all of these jobs, or none.

        An id that is already stored, finished or not, is the same job: the first content wins. If a live job of the
        queue has the key, the result is that job, or `KeyTaken` is raised if the record says so. Each result has the id
        of the stored job.
        """
        ...

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        """Enqueue the jobs of those slots of a schedule that are not enqueued yet.

        The store remembers the last enqueued slot of each schedule. A new schedule begins now: earlier slots are not
        caught up. The slots are processed from the earliest to the latest, whatever their order in the request. Each
        slot later than the last one is enqueued as by `enqueue`, and becomes the last one. The other slots are skipped:
        they were enqueued before. So any number of workers may offer the same slots: each slot is enqueued once, and
        neither a purge nor a clock that is set back enqueues a slot again. If a key is taken and the record says so,
        `KeyTaken` is raised and nothing changes; a new schedule does not even begin.

        The result has the ids of the stored jobs in the order of their slots, the store's current time, and the last
        slot. A call without slots only reads the last slot, or begins the schedule.
        """
        ...

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        """Delete these jobs, if they are finished. The result for a deleted job has no state."""
        ...

    def purge(self, purge: Purge) -> int:
        """Delete at most `limit` finished jobs that are old enough, the oldest first; return the number."""
        ...

    def pause(self, queues: Sequence[str]) -> None:
        """Stop claims from taking jobs of these queues; all other operations continue."""
        ...

    def resume(self, queues: Sequence[str]) -> None:
        """Allow claims to take jobs of these queues again."""
        ...

    def counts(self, since: float) -> list[Count]:
        """Return the number of events in each minute that overlaps the last `since` seconds, at most a day.

        The rows are sorted by minute, queue and event; there are no rows of 0. An operation counts its events in its
        own transaction.
        """
        ...

    def migrate(self) -> Schema:
        """Migrate the schema; return the version found when this handle opened the store, and the current version.

        A store without a schema returns the same version for both.
        """
        ...

    def beat(self, beat: Heartbeat, ttl: float) -> None:
        """Record a worker's heartbeat. `workers` lists the worker for `ttl` seconds; a `ttl` of 0 deregisters it.

        The store remembers a silent worker for `SILENT_WORKER_TTL` seconds after its `ttl` ended, as evidence in the
        history of its expired claims. A worker that returns after its `ttl` ended gets a new `started_at`. A
        deregistered worker is deleted at once.
        """
        ...

    def workers(self) -> list[WorkerInfo]:
        """Return the workers with a live heartbeat, sorted by name."""
        ...


class TransactionOperations(Protocol):
    """The operations that can be part of a caller's transaction."""

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        """Enqueue as `Backend.enqueue` does."""
        ...

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        """Extend as `Claiming.extend` does."""
        ...

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """Settle as `Claiming.settle` does."""
        ...

    def is_open(self) -> bool:
        """Return whether the transaction is still open, as far as the driver can tell."""
        ...

    def belongs_to(self, connection: object) -> bool:
        """Return whether the transaction belongs to this connection."""
        ...


@runtime_checkable
class Transactional(Protocol):
    """A store whose operations can share a transaction with the caller's own writes."""

    is_exclusive: ClassVar[bool]
    """Whether an open transaction blocks all other writers; leases cannot be extended meanwhile."""

    def transaction(self, loop: "AbstractEventLoop | None" = None) -> AbstractContextManager[Any]:
        """Yield a connection in a transaction, which commits when the block ends and rolls back on an exception.

        With an event loop, the connection belongs to that loop if the store's driver has async connections; the block
        itself is entered and left in another thread. Errors of the caller's own statements propagate unchanged.
        """
        ...

    def join(self, connection: object) -> AbstractContextManager[TransactionOperations]:
        """Yield operations that run in the transaction of this connection, and take effect when it commits.

        The connection is the caller's own, or one that `transaction` yielded. An async connection must be wrapped by
        `connections.caller.adapt_async_connection`. The caller decides what a server error means for its transaction.
        So such errors may propagate as the driver raised them.
        """
        ...
