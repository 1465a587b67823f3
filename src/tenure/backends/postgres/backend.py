"""The operations of the PostgreSQL store, each one transaction."""

from asyncio import AbstractEventLoop
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from tenure.backends.postgres import claim as claiming
from tenure.backends.postgres import enqueue as enqueueing
from tenure.backends.postgres import move as moving
from tenure.backends.postgres import read as reading
from tenure.backends.postgres import schedule as scheduling
from tenure.backends.postgres import settle as settling
from tenure.backends.postgres.address import address_of
from tenure.backends.postgres.caller_transaction import Joined
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import array, duration, optional_array
from tenure.backends.postgres.explain import standing
from tenure.backends.postgres.job_waiter import Wakeups
from tenure.backends.postgres.maintenance import Tidying
from tenure.backends.postgres.pipeline import Step, Values
from tenure.backends.protocol import SWEEP, Clock
from tenure.core.job import Entry, State
from tenure.core.operations import (
    EVIDENCE_KEPT,
    Beat,
    Claimed,
    ClaimRequest,
    Count,
    Enqueued,
    Extension,
    Holding,
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
    Standing,
    Stats,
    Worker,
)
from tenure.core.schedules import checked_name
from tenure.core.transitions import move_note

BESIDE = 64
"""From so many completions on it is worth a second commit to have them done beside the claim."""


class PostgreSQL:
    """A `Backend` on a server, for the threads and processes of many machines."""

    is_exclusive: ClassVar[bool] = False

    def __init__(self, url: str, *, shown: str | None = None, clock: Clock | None = None) -> None:
        self.database = Database(address_of(url, shown or url), clock=clock)
        self._tidying = Tidying(self.database)
        self._wakeups = Wakeups(self.database)

    def enqueue(self, entries: Sequence[Entry]) -> list[Enqueued]:
        enqueued = enqueueing.enqueue(self.database, entries)
        self._wakeups.ring_for_jobs(entries)
        return enqueued

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        scheduled = scheduling.schedule(self.database, checked_name(name, slots), slots)
        if scheduled.ids:
            self._wakeups.ring_for_jobs([slot.entry for slot in slots])
        return scheduled

    def claim(self, request: ClaimRequest) -> Claimed:
        return claiming.claim(self.database, request)

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        return claiming.extend(self.database, extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        landed = settling.settle(self.database, settlements)
        self._wakeups.ring_for_endings(settlements)
        return landed

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        ending = settling.Settling(self.database, settlements)
        taking = claiming.steps(self.database, request)
        if ending.only_completes and len(settlements) >= BESIDE and claiming.only_takes(request):
            ended, taken = self.database.ask_both(ending.steps, taking)
        else:
            answers = self.database.ask([*ending.steps, *taking])
            ended, taken = answers[: len(ending.steps)], answers[len(ending.steps) :]
        self._wakeups.ring_for_endings(settlements)
        return ending.landed(ended), claiming.outcome(self.database, request, taken[-1])

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        step = (
            settling.reap_expired(self.database, limit)
            if worker is None
            else settling.reap_worker(self.database, worker, started, limit)
        )
        (rows,) = self.database.ask([step], may_repeat=False)
        reaped = settling.reaped(rows)
        if any(each.state is State.QUEUED for each in reaped):
            self._wakeups.ring(None)
        return reaped

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        self._wakeups.wait(queues, types, timeout)

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        moved = moving.move(self.database, ids, move, move_note(move, reason))
        if any(each.moved and each.state is State.QUEUED for each in moved):
            self._wakeups.ring(None)
        return moved

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        return moving.delete(self.database, ids)

    def purge(self, purge: Purge) -> int:
        number = moving.purge(self.database, purge)
        if number < purge.limit:
            self._tidying.sweep_lanes()
        return number

    def pause(self, queues: Sequence[str]) -> None:
        self.database.ask([Step(self.database.statements["pause"]["pause"], {"queues": array(queues)})])

    def resume(self, queues: Sequence[str]) -> None:
        self.database.ask([Step(self.database.statements["pause"]["resume"], {"queues": array(queues)})])
        self._wakeups.ring(queues)

    def find(self, query: Query) -> Page:
        return reading.find(self.database, query)

    def stats(self) -> Stats:
        return reading.stats(self.database)

    def standing(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> Standing | None:
        return standing(self.database, id, queues, types)

    def counts(self, since: float) -> list[Count]:
        return reading.counts(self.database, since)

    def beat(self, beat: Beat, ttl: float) -> None:
        statements, now = self.database.statements["workers"], self.database.now()
        values: Values = {
            "name": beat.name,
            "host": beat.host,
            "pid": beat.pid,
            "version": beat.version,
            "concurrency": beat.concurrency,
            "queues": optional_array(beat.queues),
            "types": optional_array(beat.types),
            "quiet_for": beat.quiet_for,
            "ttl": duration(ttl),
            "now": now,
        }
        silent = Step(statements["drop long silent"], {"evidence_kept": duration(EVIDENCE_KEPT), "now": now})
        # Those who come back after a long silence would else each have the other's line and wait for their own.
        self.database.ask([Step(statements["beat" if ttl > 0 else "sign off"], values), silent])
        self._tidying.add_up_counts()

    def migrate(self) -> Schema:
        return self.database.migrate()

    def workers(self) -> list[Worker]:
        return reading.workers(self.database)

    @contextmanager
    def transaction(self, loop: AbstractEventLoop | None = None) -> Iterator[Any]:
        """Give a connection of psycopg for the caller's statements: committed on leaving, or undone."""
        with self.database.transactions.begun(loop) as connection:
            yield connection

    @contextmanager
    def joined(self, connection: object) -> Iterator[Joined]:
        """Give the operations that can be part of the transaction on a connection of the caller's."""
        with self.database.joining(connection) as caller:
            yield Joined(self.database, connection, caller, self._wakeups.ring_for_jobs)

    def close(self) -> None:
        self._wakeups.close()
        self.database.close()


def outstanding_sql(url: str, shown: str) -> str:
    """Return what brings the schema of the store that a URL names up to date; empty if it is."""
    return Database(address_of(url, shown), clock=None).outstanding()
