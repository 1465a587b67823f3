"""The common part of `Jobs` and `Table`: open a store, claim from it, read it and move its jobs.

The store is opened on first use. Threads may share a source.
"""

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from weakref import ref

from tenure.backends.protocol import SWEEP, Claiming
from tenure.client.claim import Claim, Holder, claim_lost
from tenure.client.identity import default_worker_name, new_token
from tenure.client.keeper import Keeper, Lease, ticks
from tenure.client.settling import BUSY_TIMEOUT, settle
from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.checks import Seconds
from tenure.core.filters import NameOrNames
from tenure.core.job import Job, State
from tenure.core.operations import (
    LARGEST_BATCH,
    ClaimRequest,
    Hold,
    Move,
    Moved,
    Query,
    Reaped,
    check_hold,
    check_lease,
)
from tenure.core.transitions import build_release
from tenure.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from tenure.client.aio.source import AsyncSource

T = TypeVar("T")
S = TypeVar("S", bound=Claiming)
"""The store."""
C = TypeVar("C", bound=Claim)
"""The class of its claims."""

LONGEST_POLL = 1.0
"""Seconds after which a waiting claim polls, even without a notification."""

CLOSED_MESSAGE = "this {} is closed; create a new one"


class Source(ABC, Generic[S, C]):
    """An open store, and the keeper of the leases held in it."""

    kind: str
    """The name of the public class, for messages."""

    def __init__(self, backoff: Backoff | None) -> None:
        self._backoff = require_instance("backoff", backoff or Backoff(), Backoff)
        self._lock = threading.Lock()
        self._opened: tuple[S, Holder] | None = None
        self._is_closed = False
        self._facade: AsyncSource[Any] | None = None

    @property
    @abstractmethod
    def aio(self) -> "AsyncSource[Any]":
        """The async facade: the same methods as coroutines, over the same store."""

    @abstractmethod
    def _open_store(self) -> S:
        """Open the store. Called once."""

    @abstractmethod
    def _build_claim(self, holder: Holder, job: Job, lease: Lease) -> C:
        """Return the claim of a claimed job."""

    @abstractmethod
    def _build_claims(self, holder: Holder, claims: Sequence[C]) -> Any:
        """Return the list of claims of one request."""

    @abstractmethod
    def _id_of(self, id: Any) -> str:
        """Return the id of a job, or raise for an invalid value."""

    @abstractmethod
    def _batches(self, ids: Any) -> Iterator[list[str]]:
        """Yield the distinct ids in batches of 1,000."""

    def close(self) -> None:
        """Stop extending leases and close the store. Closing twice is harmless."""
        with self._lock:
            self._is_closed = True
            opened, self._opened = self._opened, None
        threads = None if self._facade is None else self._facade.threads
        if threads is not None:
            # Before the store is closed: running operations need it.
            threads.finish()
        if opened is not None:
            backend, holder = opened
            holder.keeper.stop()
            backend.close()
        if threads is not None:
            threads.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed_message(self) -> str:
        """The message of the error for use after `close`."""
        return CLOSED_MESSAGE.format(self.kind)

    @property
    def _backend(self) -> S:
        return self._open()[0]

    def _open(self) -> tuple[S, Holder]:
        if (opened := self._opened) is not None:
            return opened
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable(self.closed_message)
            if self._opened is None:
                store = self._open_store()
                holder = Holder(
                    store=store,
                    keeper=Keeper(store.extend, kind=self.kind),
                    backoff=self._backoff,
                    random=random.random,
                    facade=_facade_of(ref(self)),
                )
                self._opened = store, holder
            return self._opened

    def _claim_with_wait(self, request: ClaimRequest, wait: Seconds) -> Any:
        """Claim, polling for up to `wait` seconds."""
        ends_at = ticks() + checks.seconds("wait", wait)
        while True:
            claims = self._claim_once(request)
            left = ends_at - ticks()
            if claims or left <= 0:
                return claims
            self._backend.wait(request.queues, request.types, min(left, LONGEST_POLL))

    def _claim_once(self, request: ClaimRequest) -> Any:
        """Claim once, with a new token."""
        request = replace(request, token=new_token())
        backend, holder = self._open()
        started_at = sent_at = ticks()
        claimed = backend.claim(request)
        while claimed.is_cut and not claimed.jobs and ticks() < started_at + BUSY_TIMEOUT:
            # The claim tried rows without success; further rows may be due behind them.
            sent_at = ticks()
            claimed = backend.claim(request)
        return self._claims_for_jobs(holder, claimed.jobs, request, sent_at)

    def _claims_for_jobs(self, holder: Holder, jobs: Sequence[Job], request: ClaimRequest, sent_at: float) -> Any:
        holds = [Hold(id=job.id, fence=job.fence, token=request.token) for job in jobs]
        if self._is_closed and holds:
            settle(holder.store, [build_release(hold) for hold in holds])
            raise StoreUnavailable(self.closed_message)
        leases = [Lease(hold, request.lease, sent_at, job=job) for hold, job in zip(holds, jobs, strict=True)]
        claims = [self._build_claim(holder, job, lease) for job, lease in zip(jobs, leases, strict=True)]
        return self._build_claims(holder, claims)

    def _attach(self, id: Any, fence: int, token: str, lease: Seconds) -> C:
        """Re-attach to a claim made elsewhere, given its id, fence and token."""
        hold = check_hold(self._id_of(id), fence, token)
        unverified = Lease.unverified(hold, check_lease(lease))
        job = self._job(hold.id)
        if job is None or job.state is not State.RUNNING or job.fence != fence:
            raise claim_lost(hold)
        return self._build_claim(self._open()[1], job, unverified)

    def _job(self, id: str) -> Job | None:
        jobs = self._backend.find(Query(ids=(id,))).jobs
        return jobs[0] if jobs else None

    def _reap(self, worker: str | None) -> list[Reaped]:
        worker = checks.optional(checks.name, "worker", worker)
        reaped = found = self._backend.reap(worker=worker)
        # Stop at a short batch, not at an empty one: a worker that is alive after all may claim the jobs again.
        while len(found) == SWEEP:
            found = self._backend.reap(worker=worker)
            reaped = [*reaped, *found]
        return reaped

    def _pages(self, query: Query) -> Iterator[list[Job]]:
        while True:
            page = self._backend.find(query)
            yield page.jobs
            if page.cursor is None:
                return
            query = replace(query, cursor=page.cursor)

    def _move(
        self, move: Move, ids: Any, query: Query, *, is_all: bool, has_condition: bool, reason: str | None, example: str
    ) -> list[Moved]:
        reason = checks.optional(checks.text, "reason", reason)
        if (ids is not None) + has_condition + checks.boolean("all", is_all) != 1:
            raise ConfigurationError(
                f"choose the jobs to {move} in exactly one way: ids, or filters such as {example}, or all=True"
            )
        chosen = self._batches(ids) if ids is not None else ([job.id for job in page] for page in self._pages(query))
        return [each for batch in chosen for each in self._backend.move(batch, move, reason)]


def request_of(
    queues: NameOrNames | None, types: NameOrNames | None, limit: int, lease: Seconds, worker: str | None
) -> ClaimRequest:
    """Return the request of a claim, or raise for an invalid option."""
    return ClaimRequest(
        queues=checks.optional(checks.names, "queues", queues),
        types=checks.optional(checks.names, "types", types),
        limit=limit,
        lease=check_lease(lease),
        worker=default_worker_name() if worker is None else worker,
        token=new_token(),
    )


def batches_of(ids: Sequence[str]) -> Iterator[list[str]]:
    """Yield the ids in batches of 1,000."""
    for start in range(0, len(ids), LARGEST_BATCH):
        yield list(ids[start : start + LARGEST_BATCH])


def require_instance(option: str, value: T, kind: type[T]) -> T:
    """Return the value if it is an instance of `kind`, else raise."""
    if not isinstance(value, kind):
        raise ConfigurationError(f"{option} must be a {kind.__name__}, not {value!r}")
    return value


def _facade_of(source: "ref[Source[Any, Any]]") -> "Callable[[], AsyncSource[Any] | None]":
    """Return a function that finds the async facade of a source. A weak reference: claims must not keep it alive."""

    def find_facade() -> "AsyncSource[Any] | None":
        found = source()
        return None if found is None else found.aio

    return find_facade
