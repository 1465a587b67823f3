"""The client: everything that can be done with jobs, over any store."""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from weakref import ref

from tenure import results
from tenure.backends.protocol import SWEEP, Backend
from tenure.backends.urls import Store, name_of, open_store
from tenure.claim import Claim, Holder, lost
from tenure.claims import Claims
from tenure.core import checks
from tenure.core.checks import Seconds, known_options
from tenure.core.explanation import Explanation, asked_for_with, explain
from tenure.core.filters import Filters, Names, States, has_condition, query_of, states_of
from tenure.core.job import FINISHED, LIVE, Job, NewJob, OnConflict, State
from tenure.core.operations import (
    COUNTS_KEPT,
    LARGEST_BATCH,
    MOST_ENQUEUED,
    Beat,
    ClaimRequest,
    Count,
    Hold,
    Move,
    Moved,
    Purge,
    Query,
    Reaped,
    Schema,
    Stats,
    hold_of,
    lease_of,
)
from tenure.core.operations import Worker as KnownWorker
from tenure.core.retry import Backoff
from tenure.core.transitions import released
from tenure.errors import ConfigurationError, StoreUnavailable
from tenure.identity import new_id, new_token, this_process
from tenure.keep import Keep
from tenure.keeper import Keeper, Lease, ticks
from tenure.tasks.registry import Registry
from tenure.transaction import transactional
from tenure.worker_options import WorkerOptions

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tenure.aio import AsyncJobs
    from tenure.testing import Rehearsal
    from tenure.worker import Summary, Worker

T = TypeVar("T")

LONGEST_POLL = 1.0
"""Seconds after which a waiting claim looks again, even if nothing woke it."""

CLOSED = "this Jobs is closed; make a new one to go on"


class Jobs(Registry):
    """A store of jobs, opened at first use, and the tasks that workers run. Safe to share between threads.

    `store` is a URL, a function that returns one, a `redis.Redis` or a `Backend`; without it the URL is `$TENURE_URL`.
    """

    @known_options
    def __init__(self, store: Store | None = None, *, backoff: Backoff | None = None, keep: Keep | None = None) -> None:
        super().__init__()
        self.keep = _checked("keep", keep or Keep(), Keep)
        self._store = store
        self._backoff = _checked("backoff", backoff or Backoff(), Backoff)
        self._lock = threading.Lock()
        self._opened: tuple[Backend, Holder] | None = None
        self._is_closed = False
        self._twin: AsyncJobs | None = None

    def __repr__(self) -> str:
        return f"<Jobs in {name_of(self._store)}>"

    def __reduce__(self) -> tuple[object, ...]:
        if not isinstance(self._store, str | None):
            raise TypeError(f"{self!r} cannot go to another process: only one that was made from a URL can")
        return partial(type(self), self._store, backoff=self._backoff, keep=self.keep), ()

    @property
    def aio(self) -> "AsyncJobs":
        """The same for async code: every verb awaited, over the same store."""
        if (twin := self._twin) is not None:
            return twin
        from tenure.aio import twin_of

        with self._lock:
            return self._twin or twin_of(self)

    @known_options
    def enqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        queue: str = "default",
        priority: int = 0,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        key: str | None = None,
        on_conflict: OnConflict = "keep",
        max_attempts: int | None = 5,
        max_crashes: int = 3,
        timeout: Seconds | None = None,
        meta: Mapping[str, str] | None = None,
        id: str | None = None,
        connection: object = None,
    ) -> str:
        """Store a job and return its id; the id of the live job that has the key, if one has.

        With a `connection` the job is part of its transaction, and there if that is committed.
        """
        job = NewJob(
            type,
            {} if payload is None else payload,
            queue=queue,
            priority=priority,
            run_at=run_at,
            delay=delay,
            key=key,
            on_conflict=on_conflict,
            max_attempts=max_attempts,
            max_crashes=max_crashes,
            timeout=timeout,
            meta={} if meta is None else meta,
            id=id,
        )
        return self.enqueue_many([job], connection=connection)[0]

    @known_options
    def enqueue_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[str]:
        """Store all of these jobs, or none; return their ids in order. With a `connection`, in its transaction."""
        if not isinstance(jobs, Iterable):
            raise ConfigurationError(f"enqueue_many takes several jobs, not {jobs!r}")
        entries = [_checked("a job", job, NewJob).entry(new_id()) for job in islice(jobs, MOST_ENQUEUED + 1)]
        if len(entries) > MOST_ENQUEUED:
            raise ConfigurationError(f"one request stores at most {MOST_ENQUEUED:,} jobs; enqueue them in parts")
        if not entries:
            return []
        if connection is None:
            return [each.id for each in self._backend.enqueue(entries)]
        with transactional(self._backend).joined(connection) as joined:
            return [each.id for each in joined.enqueue(entries)]

    @known_options
    def claim(
        self,
        *,
        queues: Names | None = None,
        types: Names | None = None,
        limit: int = 1,
        lease: Seconds = 60.0,
        wait: Seconds = 0.0,
        worker: str | None = None,
    ) -> Claims:
        """Take up to `limit` due jobs, waiting up to `wait` seconds for the first.

        Use the claims as a block to have them kept alive while you work; those you do not settle are released.
        """
        request = request_of(queues, types, limit, lease, worker)
        ends_at = ticks() + checks.seconds("wait", wait)
        while True:
            claims = self._look(request)
            left = ends_at - ticks()
            if claims or left <= 0:
                return claims
            self._backend.wait(request.queues, request.types, min(left, LONGEST_POLL))

    @known_options
    def claimed(self, id: str, *, fence: int, token: str, lease: Seconds = 60.0) -> Claim:
        """Return the handle of a claim that was made elsewhere, for who has its id, fence and token.

        Raises `ClaimLost` if the job does not run under this fence. That the token is right is seen when the claim is
        extended or settled; entered as a block it is extended first, and kept alive. Until then it counts as lost here,
        as nobody here knows how much of its lease is left, but it can be settled.
        """
        hold = hold_of(id, fence, token)
        unproven = Lease.unproven(hold, lease_of(lease))
        job = self.get(id)
        if job is None or job.state is not State.RUNNING or job.fence != fence:
            raise lost(hold)
        return Claim(self._open()[1], job, unproven)

    @known_options
    def reap(self, *, worker: str | None = None) -> list[Reaped]:
        """Take back every claim whose lease ran out; with a worker that you know is dead, all that it holds.

        Claims do the first by themselves; this does it now.
        """
        worker = checks.optional(checks.name, "worker", worker)
        reaped = found = self._backend.reap(worker=worker)
        # A short answer is the end. One who was taken for dead and lives may claim the same jobs again, and hold them.
        while len(found) == SWEEP:
            found = self._backend.reap(worker=worker)
            reaped = [*reaped, *found]
        if worker is not None:
            # After that: the history tells its last sign of life.
            self._backend.beat(Beat(name=worker, host="", pid=0, version=""), 0.0)
        return reaped

    @known_options
    def get(self, id: str) -> Job | None:
        """Return the job, or None if there is none of this id."""
        jobs = self._backend.find(Query(ids=(checks.name("id", id),))).jobs
        return jobs[0] if jobs else None

    @known_options
    def wait_for(self, id: str, timeout: Seconds | None = None) -> Job:
        """Return the job when it is completed, waiting so many seconds at most.

        Raises `JobFailed` or `JobCancelled` if it ended otherwise, and `TimeoutError` if it has not ended.
        """
        seconds = checks.optional(checks.seconds, "timeout", timeout)
        for pause in chain(results.pauses(seconds), [0.0]):
            if (job := results.completed(id, self.get(id))) is not None:
                return job
            time.sleep(pause)
        raise results.not_yet(id, seconds)

    def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the tasks until a signal, or with `drain=True` until nothing is due; return what was done.

        `queues` and `types` choose jobs; `concurrency` is how many run at a time (10). `lease` is how long a job is
        held after a sign of life (60 seconds). After SIGTERM, SIGINT or SIGHUP, handlers have `grace` to end (30
        seconds); after a second one, none. Async tasks run on an event loop, others in threads; neither is the thread
        that calls this.
        """
        from tenure.worker import Worker, stopped_by_signals

        worker = Worker(self, options)
        with stopped_by_signals(worker):
            worker.start()
            worker.join()
        return worker.summary

    def worker(self, **options: Unpack[WorkerOptions]) -> "Worker":
        """Return a worker with the options of `work`, to be used as a block: it runs beside what the block does."""
        from tenure.worker import Worker

        return Worker(self, options)

    def testing(self) -> "AbstractContextManager[Rehearsal]":
        """Return a block, for a test, in which this object and its tasks use a new store in memory and no other.

        It gives what to look at, run and assert: `with jobs.testing() as queue`.
        """
        from tenure.testing.rehearsal import rehearse

        return rehearse(self)

    def find(self, **filters: Unpack[Filters]) -> Iterator[Job]:
        """Yield the jobs that match, read page by page; without a condition, all."""
        query = query_of("find", filters)
        return (job for page in self._pages(query) for job in page)

    def stats(self) -> Stats:
        """Count the jobs by queue, type and state."""
        return self._backend.stats()

    @known_options
    def explain(self, id: str) -> Explanation | None:
        """Tell why the job is not running, or how it runs; None if there is none of this id."""
        if (job := self.get(id)) is None:
            return None
        workers = self._backend.workers()
        standing = self._backend.standing(job.id, *asked_for_with(job, workers))
        return None if standing is None else explain(standing, workers)

    @known_options
    def counts(self, since: Seconds = 3600.0) -> list[Count]:
        """Return what happened minute by minute, over the last hour or as far back as a day."""
        return self._backend.counts(checks.seconds("since", since, most=COUNTS_KEPT))

    def workers(self) -> list[KnownWorker]:
        """Return the workers that lately gave a sign of life."""
        return self._backend.workers()

    def retry(
        self, ids: Names | None = None, *, reason: str | None = None, all: bool = False, **filters: Unpack[Filters]
    ) -> list[Moved]:
        """Queue failed or cancelled jobs again, with fresh attempts: those named, or the failed ones that match."""
        return self._move(Move.RETRY, ids, filters, states=frozenset({State.FAILED}), reason=reason, all=all)

    def cancel(
        self, ids: Names | None = None, *, reason: str | None = None, all: bool = False, **filters: Unpack[Filters]
    ) -> list[Moved]:
        """Cancel queued jobs and ask running ones to stop: those named, or those that match."""
        return self._move(Move.CANCEL, ids, filters, states=LIVE, reason=reason, all=all)

    @known_options
    def delete(self, ids: Names) -> list[Moved]:
        """Forget these jobs, if they are finished."""
        return [each for batch in _batches(ids) for each in self._backend.delete(batch)]

    @known_options
    def purge(self, older_than: Seconds, *, state: States | None = None, queue: Names | None = None) -> int:
        """Forget the jobs that finished at least so long ago; return how many."""
        states = FINISHED if (named := states_of(state)) is None else named
        if not states <= FINISHED:
            raise ConfigurationError(f"state must be one of {', '.join(sorted(FINISHED))} for a purge, not {state!r}")
        purge = Purge(
            older_than=checks.seconds("older_than", older_than),
            states=states,
            queues=checks.optional(checks.names, "queue", queue),
        )
        number = 0
        while purged := self._backend.purge(purge):
            number += purged
        return number

    @known_options
    def pause(self, queues: Names) -> None:
        """Let no claim take jobs of these queues, until they are resumed."""
        self._backend.pause(checks.names("queues", queues))

    @known_options
    def resume(self, queues: Names) -> None:
        """Let claims take jobs of these queues again."""
        self._backend.resume(checks.names("queues", queues))

    def migrate(self) -> Schema:
        """Bring the store's schema up to date, making the store if there is none; tell which version it had and has."""
        return self._backend.migrate()

    def close(self) -> None:
        """Stop keeping leases and close the store. Closing again does nothing."""
        with self._lock:
            self._is_closed = True
            opened, self._opened = self._opened, None
        threads = None if self._twin is None else self._twin.threads
        if threads is not None:
            # What is under way needs the store.
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
    def _backend(self) -> Backend:
        return self._open()[0]

    def _open(self) -> tuple[Backend, Holder]:
        if (opened := self._opened) is not None:
            return opened
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable(CLOSED)
            if self._opened is None:
                backend = open_store(self._store)
                keeper = Keeper(backend.extend)
                holder = Holder(
                    store=backend, keeper=keeper, backoff=self._backoff, random=random.random, twin=_twin_of(ref(self))
                )
                self._opened = backend, holder
            return self._opened

    def _look(self, request: ClaimRequest) -> Claims:
        """Claim once, under a token of its own."""
        request = replace(request, token=new_token())
        backend, holder = self._open()
        sent_at = ticks()
        jobs = backend.claim(request).jobs
        return self._claims(holder, jobs, request, sent_at)

    def _claims(self, holder: Holder, jobs: Sequence[Job], request: ClaimRequest, sent_at: float) -> Claims:
        holds = [Hold(id=job.id, fence=job.fence, token=request.token) for job in jobs]
        if self._is_closed and holds:
            holder.store.settle([released(hold) for hold in holds])
            raise StoreUnavailable(CLOSED)
        leases = [Lease(hold, request.lease, sent_at, job=job) for hold, job in zip(holds, jobs, strict=True)]
        return Claims(holder, [Claim(holder, job, lease) for job, lease in zip(jobs, leases, strict=True)])

    def _pages(self, query: Query) -> Iterator[list[Job]]:
        while True:
            page = self._backend.find(query)
            yield page.jobs
            if page.cursor is None:
                return
            query = replace(query, cursor=page.cursor)

    def _move(
        self,
        move: Move,
        ids: Names | None,
        filters: Filters,
        *,
        states: frozenset[State],
        reason: str | None,
        all: bool,
    ) -> list[Moved]:
        query = query_of(move.value, filters, "ids", "reason", "all")
        reason = checks.optional(checks.text, "reason", reason)
        if (ids is not None) + has_condition(filters) + checks.truth("all", all) != 1:
            raise ConfigurationError(
                f"say which jobs to {move}, in one way: ids, or conditions such as queue='mail', or all=True"
            )
        if ids is not None:
            batches = _batches(ids)
        else:
            query = query if query.states is not None else replace(query, states=states)
            batches = ([job.id for job in page] for page in self._pages(query))
        return [each for batch in batches for each in self._backend.move(batch, move, reason)]


def request_of(
    queues: Names | None, types: Names | None, limit: int, lease: Seconds, worker: str | None
) -> ClaimRequest:
    """Return what a claim asks for, or raise for an option that cannot be used."""
    return ClaimRequest(
        queues=checks.optional(checks.names, "queues", queues),
        types=checks.optional(checks.names, "types", types),
        limit=limit,
        lease=lease_of(lease),
        worker=this_process() if worker is None else worker,
        token=new_token(),
    )


def _twin_of(jobs: "ref[Jobs]") -> "Callable[[], AsyncJobs | None]":
    """Return what finds the twin of a `Jobs`, if that is still there: claims are no reason to keep it."""

    def twin() -> "AsyncJobs | None":
        found = jobs()
        return None if found is None else found.aio

    return twin


def _checked(what: str, value: T, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise ConfigurationError(f"{what} must be a {kind.__name__}, not {value!r}")
    return value


def _batches(ids: Names) -> Iterator[list[str]]:
    """Yield the ids, each once, by the thousand."""
    named = checks.any_names("ids", ids)
    for start in range(0, len(named), LARGEST_BATCH):
        yield list(named[start : start + LARGEST_BATCH])
