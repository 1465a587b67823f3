"""The PostgreSQL store: every operation runs in one transaction."""

from asyncio import AbstractEventLoop
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar

from tenure.backends.postgres import claim, enqueue, read, schedule, settle
from tenure.backends.postgres import move as move_operations
from tenure.backends.postgres.address import address_of
from tenure.backends.postgres.batch_limit import BatchLimit
from tenure.backends.postgres.caller_transaction import PostgresTransactionOperations
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import array, microseconds, optional_array
from tenure.backends.postgres.errors import rejections_raised
from tenure.backends.postgres.explain import explain
from tenure.backends.postgres.job_waiter import JobWaiter
from tenure.backends.postgres.maintenance import Maintenance
from tenure.backends.postgres.pipeline import BoundQuery, QueryValues
from tenure.backends.protocol import SWEEP, StoreClock
from tenure.backends.shared.isolation import StatementRejected, claim_after_settling, settle_isolated
from tenure.core.job import JobRecord, State
from tenure.core.operations import (
    SILENT_WORKER_TTL,
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
from tenure.core.schedules import check_schedule
from tenure.core.transitions import move_note

CONCURRENT_SETTLE_MINIMUM = 64
"""Minimum number of completions for which a second connection, with a commit of its own, pays off."""


class PostgreSQL:
    """A `Backend` on a PostgreSQL server, for threads and processes on many machines."""

    is_exclusive: ClassVar[bool] = False

    def __init__(self, url: str, *, shown: str | None = None, clock: StoreClock | None = None) -> None:
        self.database = Database(address_of(url, shown or url), clock=clock)
        self._maintenance = Maintenance(self.database)
        self._waiter = JobWaiter(self.database)
        self._batch_limit = BatchLimit(self.database.address.timeout)

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        enqueued = enqueue.enqueue(self.database, records)
        self._waiter.wake_for_jobs(records)
        return enqueued

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        scheduled = schedule.schedule(self.database, check_schedule(name, slots), slots)
        if scheduled.ids:
            self._waiter.wake_for_jobs([slot.record for slot in slots])
        return scheduled

    def claim(self, request: ClaimRequest) -> Claimed:
        claimed = self._batch_limit.run(request, partial(claim.claim, self.database), lambda each: len(each.jobs))
        self._waiter.record_claim(request, claimed)
        return claimed

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return claim.extend(self.database, extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        settled = settle_isolated(settlements, self._settle)
        self._waiter.wake_for_settlements(settlements)
        return settled

    def _settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        with self._rejections_raised():
            return settle.settle(self.database, settlements)

    def _rejections_raised(self) -> AbstractContextManager[None]:
        """Raise `StatementRejected` if the server rejects a job; not if the schema is missing or outdated."""
        hint = f"check the constraints and triggers of {self.database.address.display_name}"
        return rejections_raised(hint, ignores_invalid=True)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[Settled], Claimed]:
        try:
            with self._rejections_raised():
                return self._batch_limit.run(
                    request, partial(self._exchange, settlements), lambda both: len(both[1].jobs)
                )
        except StatementRejected:
            return claim_after_settling(self.settle(settlements), lambda: self.claim(request))

    def _exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[Settled], Claimed]:
        batch = settle.SettleBatch(self.database, settlements)
        claim_queries = claim.queries(self.database, request)
        if batch.only_completes and len(settlements) >= CONCURRENT_SETTLE_MINIMUM and claim.skips_reaping(request):
            settled, taken = self.database.execute_concurrently(batch.queries, claim_queries)
        else:
            results = self.database.execute([*batch.queries, *claim_queries])
            settled, taken = results[: len(batch.queries)], results[len(batch.queries) :]
        self._waiter.wake_for_settlements(settlements)
        claimed = claim.read_outcome(self.database, request, taken[-1])
        self._waiter.record_claim(request, claimed)
        return batch.read_settled(settled), claimed

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        query = (
            settle.reap_expired_query(self.database, limit)
            if worker is None
            else settle.reap_worker_query(self.database, worker, started, limit)
        )
        (rows,) = self.database.execute([query], may_repeat=False)
        reaped = settle.parse_reaped(rows)
        if any(each.state is State.QUEUED for each in reaped):
            self._waiter.wake(None)
        return reaped

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        self._waiter.wait(queues, types, timeout)

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        moved = move_operations.move(self.database, ids, move, move_note(move, reason))
        if any(each.moved and each.state is State.QUEUED for each in moved):
            self._waiter.wake(None)
        return moved

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        return move_operations.delete(self.database, ids)

    def purge(self, purge: Purge) -> int:
        number = move_operations.purge(self.database, purge)
        if number < purge.limit:
            self._maintenance.sweep_lanes()
        return number

    def pause(self, queues: Sequence[str]) -> None:
        self.database.execute([BoundQuery(self.database.statements["pause"]["pause"], {"queues": array(queues)})])

    def resume(self, queues: Sequence[str]) -> None:
        self.database.execute([BoundQuery(self.database.statements["pause"]["resume"], {"queues": array(queues)})])
        self._waiter.wake(queues)

    def find(self, query: Query) -> Page:
        if query.ids is not None:
            return read.find(self.database, query)
        return self._batch_limit.run(query, partial(read.find, self.database), lambda page: len(page.jobs))

    def stats(self) -> Stats:
        return read.stats(self.database)

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        return explain(self.database, id, queues, types)

    def counts(self, since: float) -> list[Count]:
        return read.counts(self.database, since)

    def beat(self, beat: Heartbeat, ttl: float) -> None:
        statements, now = self.database.statements["workers"], self.database.now()
        values: QueryValues = {
            "name": beat.name,
            "host": beat.host,
            "pid": beat.pid,
            "version": beat.version,
            "concurrency": beat.concurrency,
            "queues": optional_array(beat.queues),
            "types": optional_array(beat.types),
            "quiet_for": beat.quiet_for,
            "ttl": microseconds(ttl),
            "now": now,
        }
        silent = BoundQuery(
            statements["drop long silent"], {"evidence_kept": microseconds(SILENT_WORKER_TTL), "now": now}
        )
        # Delete stale rows after the worker's own row is written, and skip locked rows: two workers that return after a
        # long pause would otherwise each hold the other's row and deadlock.
        self.database.execute([BoundQuery(statements["beat" if ttl > 0 else "deregister"], values), silent])
        self._maintenance.merge_counts()

    def migrate(self) -> Schema:
        return self.database.migrate()

    def workers(self) -> list[WorkerInfo]:
        return read.workers(self.database)

    @contextmanager
    def transaction(self, loop: AbstractEventLoop | None = None) -> Iterator[Any]:
        """Yield a psycopg connection for the caller's statements. Commit on exit, roll back on an exception."""
        with self.database.transactions.begin(loop) as connection:
            yield connection

    @contextmanager
    def join(self, connection: object) -> Iterator[PostgresTransactionOperations]:
        """Yield the operations that can run inside the transaction of the caller's connection."""
        with self.database.caller_connection(connection) as caller:
            yield PostgresTransactionOperations(self.database, connection, caller, self._waiter.wake_for_jobs)

    def close(self) -> None:
        self._waiter.close()
        self.database.close()


def outstanding_sql(url: str, shown: str) -> str:
    """Return the SQL that migrates the store at a URL; empty if the schema is current."""
    return Database(address_of(url, shown), clock=None).outstanding()
