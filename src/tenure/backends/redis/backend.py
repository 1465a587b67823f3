"""The operations of the Redis store. Each operation is one Lua script."""

from collections.abc import Collection, Sequence

from tenure.backends.protocol import SWEEP, StoreClock
from tenure.backends.redis import claim, enqueue, read
from tenure.backends.redis import move as move_operations
from tenure.backends.redis.address import Address, address_of
from tenure.backends.redis.job_waiter import JobWaiter
from tenure.backends.redis.server import Server
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
from tenure.core.schedules import check_schedule
from tenure.core.transitions import move_note

LAYOUT = 1
"""The version of the key and row layout that the scripts expect."""


class Redis:
    """A `Backend` on a Redis or Valkey server or cluster, shared by threads, processes and machines."""

    def __init__(self, url: str | Address, *, shown: str | None = None, clock: StoreClock | None = None) -> None:
        address = url if isinstance(url, Address) else address_of(url, shown or url)
        self._server = Server(address, clock=clock)
        self._waiter = JobWaiter(self._server)

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        return enqueue.enqueue(self._server, records)

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        return enqueue.schedule(self._server, check_schedule(name, slots), slots)

    def claim(self, request: ClaimRequest) -> Claimed:
        return claim.claim(self._server, request)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return claim.extend(self._server, extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return claim.settle(self._server, settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        return claim.exchange(self._server, settlements, request)

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        return claim.reap(self._server, limit, worker, started)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        self._waiter.wait(queues, types, timeout)

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        return move_operations.move(self._server, ids, move, move_note(move, reason))

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        return move_operations.delete(self._server, ids)

    def purge(self, purge: Purge) -> int:
        return move_operations.purge(self._server, purge)

    def pause(self, queues: Sequence[str]) -> None:
        move_operations.pause(self._server, queues)

    def resume(self, queues: Sequence[str]) -> None:
        move_operations.resume(self._server, queues)

    def find(self, query: Query) -> Page:
        return read.find(self._server, query)

    def stats(self) -> Stats:
        return read.stats(self._server)

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        return read.explain(self._server, id, queues, types)

    def counts(self, since: float) -> list[Count]:
        return read.counts(self._server, since)

    def beat(self, beat: Heartbeat, ttl: float) -> None:
        read.beat(self._server, beat, ttl)

    def workers(self) -> list[WorkerInfo]:
        return read.workers(self._server)

    def migrate(self) -> Schema:
        self.workers()  # every script compares the layout versions, and raises if they differ
        return Schema(before=LAYOUT, now=LAYOUT)

    def close(self) -> None:
        self._waiter.close()
        self._server.close()
