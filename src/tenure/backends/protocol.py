"""The contract of a store. Read this first.

An operation is **one atomic state change, already decided**: one transaction and one round trip. Deciding (which
back-off, whether attempts are spent) is pure and happens in `core`; a store compares and writes. Every operation
takes and returns several at once; the answer is in the order of the question.

What holds for every operation of every store:

- *Atomic.* It happens wholly or not at all, and to every other client at one instant.
- *Fenced.* Only the **holder** of a job may extend or settle it: who shows the job's id, the fence of the latest
  claim and the token of the request that made it, while the job is running. A lease that ran out does not end this by
  itself: until somebody reaps the job nobody else has run it, and its holder may still extend and settle.
- *The store's clock.* Due, expired, old: by the store's own clock, read once in the operation, not before the request
  came and not after its effect can be seen. A moment that has been reached counts: due at `run_at`, expired at
  `leased_until`, to the microsecond. What a claim found due stays due, should the clock be set back. A store takes an
  optional `clock` when it is built, and tests set it.
- *Repeatable.* A request whose answer was lost may be sent again. The same id is the same job; the same token returns
  the same claims; a settlement that landed is told so again.
- *In order.* Several in one request are done as if one after the other, and answered in the order asked.
- *Bounded.* The work of a call depends on what was asked for, not on what is stored: at most `MOST_ENQUEUED` jobs are
  enqueued, and at most `LARGEST_BATCH` named in any other request. A claim costs
  O(queues x types + limit), whatever is queued, scheduled, running, finished, or of another type.
- *Without deadlock.* A store that locks jobs one by one locks them in one order, whatever the order asked.
- *Names as they are.* Two names are the same if every character is. What is sorted by name is sorted by code point.
- *Thread-safe.* Any thread may call any operation at any time. After a fork the child may call them as well, or is
  told that it cannot.
- *Errors.* A store that does not answer raises `StoreUnavailable`, and nothing of its driver leaves it.

An operation is synchronous. Hints are never needed: without one the answer is exact.

What holds for every job: `leased_until` is there exactly while it runs, and `cancel_requested` is true only then.
`worker` is there while it runs, and stays on a completed job. `finished_at` is there exactly when it is completed,
failed or cancelled. `progress` stays until the next claim, or an operator's retry. `fence` never falls while the job
is stored.
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
    Settlement,
    Slot,
    Stats,
    WorkerInfo,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

StoreClock = Callable[[], datetime]
"""Returns the present moment, with a time zone."""

SWEEP = 1_000
"""How many jobs one claim promotes at most when they came due, and how many it reaps at most; oldest first.

While no more than this became due since the last claim, a claim takes exactly the first of all due jobs. After a
greater burst the rest follows with the next calls.
"""

SCAN = 10_000
"""How many jobs one call of `find` looks at before it hands out a cursor, and up to which `stats` must be exact.

Also how many that came due, and were not promoted yet, `standing` looks at.
"""


class Claiming(Protocol):
    """What it takes to hold jobs: a store has it, and so has a table of the user's own."""

    def claim(self, request: ClaimRequest) -> Claimed:
        """Take due jobs for a worker.

        First what came due is promoted and what ran out is reaped, each at most `SWEEP` jobs, oldest first; what ran
        out, of any queue. Then, of the due jobs
        of the queues and types asked for that nobody else is taking at this instant and whose queue is not paused,
        the first `limit` are taken: higher priority first, then earlier `run_at`, then enqueue order. They are
        returned in that order.

        Each taken job is running, leased to the worker for `lease` seconds, with its fence and its attempts one
        higher, and without the progress of an earlier claim. Nobody else gets it, and never more than `limit` are
        taken.

        A token that still holds jobs returns those, in the same order, and changes nothing; not even what ran out is
        reaped. Their leases began when the token was first used: who sends a request again counts the lease from the
        first time it was sent. A token that holds nothing, used before or not, claims. Two requests of one token at
        the same time may both take jobs; none is taken twice.
        """
        ...

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        """Prolong the leases that are held, and note their progress.

        A held lease ends `lease` seconds from now, or when it ended before if that is later; progress of None keeps
        what was there. The answer tells the holder that it still holds, that it holds but was asked to cancel, or that
        it lost the job. For a lost one nothing changes.
        """
        ...

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """End claims: True for each that landed, False for each that is lost.

        All fields of the job change at once. A job that was asked to cancel becomes cancelled instead of what the
        settlement says, unless that is completed: then its `run_at` stays too, while attempts change and the history
        names the outcome as the settlement does. Every ending but complete adds one line to the job's history, of which
        the last `HISTORY_KEPT` stay.

        A settlement sent again landed if the first one did: the job is completed under this fence and token, or they
        stand in its history with the same outcome. A claim that was reaped stands there as expired, so its holder is
        told that it is lost. A lost settlement changes nothing, costs its neighbours nothing, and is counted as
        refused if its job is stored.
        """
        ...

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        """Settle, then claim, in one transaction and one round trip.

        If all are completions and the claim has a hint, neither can see the other: then a store may do both at the same
        time, each in a transaction of its own.
        """
        ...

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        """Take back at most `limit` claims whose lease ran out, the longest expired first.

        Their attempts stay, their crashes grow by one, and they are queued again with their `run_at` kept; or failed,
        if attempts or crashes are spent; or cancelled, if that was asked for. The history calls them expired, with the
        evidence as the error (`transitions.expiry_note`): who held the job since when and, if the store has a registry
        that remembers this worker, its last sign of life.

        A live lease is never touched, unless its `worker` is named: then the claims of that worker and no others are
        taken back, run out or not, on the word of whoever knows that it is dead. If that one also knows which jobs the
        worker had `started`, only these have crashed; the others had only waited in its buffer, and are released.
        Without a worker, `started` means nothing.

        A table that can tell from the output that the work is done makes it completed instead.
        """
        ...

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        """Move jobs by an operator's hand, each only from the states that allow it.

        *Retry* queues a failed or cancelled job now, with attempts and crashes at 0 and without progress; fence and
        history go on. If its key was taken meanwhile it is not moved. *Cancel* ends a queued job at once, and asks a
        running one. A job that moved has one more line in its history: outcome `operator`, the fence as it is, and the
        move with its reason (`transitions.move_note`) as the error; no token, worker or `claimed_at`.
        """
        ...

    def find(self, query: Query) -> Page:
        """Return a page of the jobs that match, in enqueue order or the reverse.

        One call looks at no more than `SCAN` jobs, so a page may be short, even empty, before the end; only a cursor
        of None is the end. Jobs that come and go between the pages appear at most once. A cursor that no page gave is
        a `ConfigurationError`.
        """
        ...

    def stats(self) -> Stats:
        """Count the jobs by queue, type and state, in this order; a queue and type without jobs has no row.

        All numbers are of one moment. A number above `SCAN` may be answered as `SCAN` by a store that would have to
        count on. The paused queues are sorted.
        """
        ...

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        """Return what a claim of this job depends on, all of one moment; None if there is no such job.

        Of a job that is due, `ahead` counts the others that are due, of the queues and types given and of no paused
        queue, and that a claim takes before it; up to `MOST_AHEAD`. It is 0 for a job that is not due. What ran out
        and was not reaped is not counted. When more than `SCAN` jobs came due since the last claim, some of these may
        be left out.

        `holder` is what the registry has of the job's worker while it runs, shown or silent; None if it has nothing,
        or if the store has no registry.
        """
        ...

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        """Return when a claim may find something, or after `timeout` seconds of real time.

        A hint: it may return late, or early when something happened that it might have waited for, but not at once
        and always. One new job wakes about one waiter.
        """
        ...

    def close(self) -> None:
        """Give back what this handle holds open. Closing again does nothing; using it again is the caller's mistake."""
        ...


@runtime_checkable
class Backend(Claiming, Protocol):
    """A store that jobs can be enqueued in."""

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        """Store all of these jobs, or none.

        An id that is stored, finished or not, is the same job: the first content wins. A key that a live job of the
        queue has is that job, or raises `KeyTaken` if the entry says so. The answer has the id of the stored job.
        """
        ...

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        """Enqueue the jobs of those slots of a schedule that nobody has given out.

        The store remembers the last slot of each schedule that was given out. A schedule that it has never seen begins
        now: what lies before is not made up for. Then, the earliest first whatever the order given, each slot that is
        later than the last is enqueued as `enqueue` does, and becomes the last. The others are passed over: somebody
        gave them out. So any number of workers may offer the same slots, each is enqueued once, and neither a purge nor
        a clock that is set back brings one again. If a key is taken and its entry says so, `KeyTaken` is raised and
        nothing is changed, not even begun.

        The answer has the ids of the stored jobs in the order of their slots, and the store's present moment. Without
        slots it tells the last one.
        """
        ...

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        """Forget these jobs; only finished ones. A job that is forgotten has no state any more."""
        ...

    def purge(self, purge: Purge) -> int:
        """Forget at most `limit` finished jobs that are old enough, the oldest first; return how many."""
        ...

    def pause(self, queues: Sequence[str]) -> None:
        """Let no claim take jobs of these queues; everything else goes on."""
        ...

    def resume(self, queues: Sequence[str]) -> None:
        """Let claims take jobs of these queues again."""
        ...

    def counts(self, since: float) -> list[Count]:
        """Return what happened in each minute that the last `since` seconds, at most a day, touch.

        Sorted by minute, queue and event; what did not happen has no row. Each event is counted in the operation that
        made it happen.
        """
        ...

    def migrate(self) -> Schema:
        """Bring the schema up to date, and tell which version was found when this handle opened the store.

        A store that has no schema tells the same version for both.
        """
        ...

    def beat(self, beat: Heartbeat, ttl: float) -> None:
        """Note a worker's sign of life, to be shown until `ttl` seconds from now; a `ttl` of 0 signs it off.

        A worker that fell silent is remembered for `EVIDENCE_KEPT` seconds after it was last shown, for the history of
        the claims that it left; if it comes back it starts anew. One that signed off is forgotten at once.
        """
        ...

    def workers(self) -> list[WorkerInfo]:
        """Return the workers that gave a sign of life, by name."""
        ...


class TransactionOperations(Protocol):
    """Operations that are part of a transaction which somebody else commits."""

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        """Do as `Backend.enqueue` does."""
        ...

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        """Do as `Claiming.extend` does."""
        ...

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Do as `Claiming.settle` does."""
        ...

    def is_open(self) -> bool:
        """Tell whether that transaction is still to be committed or rolled back, as far as can be known."""
        ...

    def is_of(self, connection: object) -> bool:
        """Tell whether it is a transaction of this connection."""
        ...


@runtime_checkable
class Transactional(Protocol):
    """A store whose operations can share a transaction with writes of the caller's own."""

    is_exclusive: ClassVar[bool]
    """Whether nobody else can write while a transaction is open: then leases cannot be extended meanwhile."""

    def transaction(self, loop: "AbstractEventLoop | None" = None) -> AbstractContextManager[Any]:
        """Give a connection in a transaction: committed when its block is left, undone by an exception.

        With an event loop, the connection is for that loop, if the store's driver has such; the block itself is entered
        and left in another thread. What the caller's own statements raise goes on as it is.
        """
        ...

    def join(self, connection: object) -> AbstractContextManager[TransactionOperations]:
        """Give operations that happen in the transaction of this connection, if that is committed.

        The connection is the caller's, or one that `transaction` gave. An async one has to be such as
        `connections.caller.awaited_on` returns. What an error of the server's means for the caller's transaction is
        the caller's to know: such errors may go on as the driver raised them.
        """
        ...
