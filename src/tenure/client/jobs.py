"""The client: everything that can be done with jobs, over any store."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Unpack

from tenure.backends.protocol import Backend
from tenure.backends.urls import Store, display_name, open_store
from tenure.client import results
from tenure.client.claim import Claim, Holder
from tenure.client.claims import Claims
from tenure.client.identity import new_id
from tenure.client.keeper import Lease
from tenure.client.retention import Retention
from tenure.client.source import Source, batches_of, request_of, require_instance
from tenure.client.transaction import require_transactional
from tenure.client.worker_options import WorkerOptions
from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.checks import Seconds, reject_unknown_options
from tenure.core.explanation import Explanation, claim_filters_for, explain
from tenure.core.filters import Filters, NameOrNames, States, build_query, has_condition, parse_states
from tenure.core.job import FINISHED, LIVE, Job, NewJob, OnConflict, State
from tenure.core.operations import (
    COUNTS_KEPT,
    LARGEST_ENQUEUE,
    Count,
    Heartbeat,
    Move,
    Moved,
    Purge,
    Reaped,
    Schema,
    Stats,
)
from tenure.core.operations import WorkerInfo as KnownWorker
from tenure.errors import ConfigurationError
from tenure.tasks.registry import Registry

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tenure.client.aio import AsyncJobs
    from tenure.testing import TestQueue
    from tenure.worker import Summary, Worker


class Jobs(Registry, Source[Backend, Claim]):
    """A store of jobs, opened at first use, and the tasks that workers run. Safe to share between threads.

    `store` is a URL, a function that returns one, a `redis.Redis` or a `Backend`; without it the URL is `$TENURE_URL`.
    """

    kind = "Jobs"

    @reject_unknown_options
    def __init__(
        self, store: Store | None = None, *, backoff: Backoff | None = None, retention: Retention | None = None
    ) -> None:
        Registry.__init__(self)
        Source.__init__(self, backoff)
        self.retention = require_instance("retention", retention or Retention(), Retention)
        self._store = store
        self._facade: AsyncJobs | None = None

    def __repr__(self) -> str:
        return f"<Jobs in {display_name(self._store)}>"

    def __reduce__(self) -> tuple[object, ...]:
        if not isinstance(self._store, str | None):
            raise TypeError(f"cannot pickle {self!r}: it was not created from a URL; create the Jobs from a URL string")
        return partial(type(self), self._store, backoff=self._backoff, retention=self.retention), ()

    @property
    def aio(self) -> "AsyncJobs":
        """The same for async code: every verb awaited, over the same store."""
        if (facade := self._facade) is not None:
            return facade
        from tenure.client.aio import create_facade

        with self._lock:
            return self._facade or create_facade(self)

    @reject_unknown_options
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

    @reject_unknown_options
    def enqueue_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[str]:
        """Store all of these jobs, or none; return their ids in order. With a `connection`, in its transaction."""
        if not isinstance(jobs, Iterable):
            raise ConfigurationError(f"enqueue_many takes an iterable of NewJob, not {jobs!r}")
        records = [require_instance("a job", job, NewJob).record(new_id()) for job in islice(jobs, LARGEST_ENQUEUE + 1)]
        if len(records) > LARGEST_ENQUEUE:
            raise ConfigurationError(
                f"too many jobs: one request stores at most {LARGEST_ENQUEUE:,}; enqueue them in batches"
            )
        if not records:
            return []
        if connection is None:
            return [each.id for each in self._backend.enqueue(records)]
        with require_transactional(self._backend).join(connection) as transaction:
            return [each.id for each in transaction.enqueue(records)]

    @reject_unknown_options
    def claim(
        self,
        *,
        queues: NameOrNames | None = None,
        types: NameOrNames | None = None,
        limit: int = 1,
        lease: Seconds = 60.0,
        wait: Seconds = 0.0,
        worker: str | None = None,
    ) -> Claims:
        """Take up to `limit` due jobs, waiting up to `wait` seconds for the first.

        Use the claims as a block to have them kept alive while you work; those you do not settle are released.
        """
        claims: Claims = self._claim_with_wait(request_of(queues, types, limit, lease, worker), wait)
        return claims

    @reject_unknown_options
    def attach(self, id: str, *, fence: int, token: str, lease: Seconds = 60.0) -> Claim:
        """Return the handle of a claim that was made elsewhere, for who has its id, fence and token.

        Raises `ClaimLost` if the job does not run under this fence. That the token is right is seen when the claim is
        extended or settled; entered as a block it is extended first, and kept alive. Until then it counts as lost here,
        as nobody here knows how much of its lease is left, but it can be settled.
        """
        return self._attach(id, fence, token, lease)

    @reject_unknown_options
    def reap(self, *, worker: str | None = None) -> list[Reaped]:
        """Take back every claim whose lease ran out; with a worker that you know is dead, all that it holds.

        Claims do the first by themselves; this does it now.
        """
        reaped = self._reap(worker)
        if worker is not None:
            # After that: the history tells its last sign of life.
            self._backend.beat(Heartbeat(name=worker, host="", pid=0, version=""), 0.0)
        return reaped

    @reject_unknown_options
    def get(self, id: str) -> Job | None:
        """Return the job, or None if there is none of this id."""
        return self._job(self._id_of(id))

    @reject_unknown_options
    def wait_for(self, id: str, timeout: Seconds | None = None) -> Job:
        """Return the job when it is completed, waiting so many seconds at most.

        Raises `JobFailed` or `JobCancelled` if it ended otherwise, and `TimeoutError` if it has not ended.
        """
        seconds = checks.optional(checks.seconds, "timeout", timeout)
        for pause in chain(results.poll_delays(seconds), [0.0]):
            if (job := results.completed_job(id, self.get(id))) is not None:
                return job
            time.sleep(pause)
        raise results.timeout_error(id, seconds)

    def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the tasks until a signal, or with `drain=True` until nothing is due; return what was done.

        `queues` and `types` choose jobs; `concurrency` is how many run at a time (10). `lease` is how long a job is
        held after a sign of life (60 seconds). After SIGTERM, SIGINT or SIGHUP, handlers have `grace` to end (30
        seconds); after a second one, none. Async tasks run on an event loop, others in threads; neither is the thread
        that calls this.
        """
        from tenure.worker import work

        return work(self, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "Worker":
        """Return a worker with the options of `work`, to be used as a block: it runs beside what the block does."""
        from tenure.worker import Worker

        return Worker(self, options)

    def testing(self) -> "AbstractContextManager[TestQueue]":
        """Return a block, for a test, in which this object and its tasks use a new store in memory and no other.

        It gives what to look at, run and assert: `with jobs.testing() as queue`.
        """
        from tenure.testing.testing_queue import use_test_queue

        return use_test_queue(self)

    def find(self, **filters: Unpack[Filters]) -> Iterator[Job]:
        """Yield the jobs that match, read page by page; without a condition, all."""
        query = build_query("find", filters)
        return (job for page in self._pages(query) for job in page)

    def stats(self) -> Stats:
        """Count the jobs by queue, type and state."""
        return self._backend.stats()

    @reject_unknown_options
    def explain(self, id: str) -> Explanation | None:
        """Tell why the job is not running, or how it runs; None if there is none of this id."""
        if (job := self.get(id)) is None:
            return None
        workers = self._backend.workers()
        outlook = self._backend.explain(job.id, *claim_filters_for(job, workers))
        return None if outlook is None else explain(outlook, workers)

    @reject_unknown_options
    def counts(self, since: Seconds = 3600.0) -> list[Count]:
        """Return what happened minute by minute, over the last hour or as far back as a day."""
        return self._backend.counts(checks.seconds("since", since, most=COUNTS_KEPT))

    def workers(self) -> list[KnownWorker]:
        """Return the workers that lately gave a sign of life."""
        return self._backend.workers()

    def retry(
        self,
        ids: NameOrNames | None = None,
        *,
        reason: str | None = None,
        all: bool = False,
        **filters: Unpack[Filters],
    ) -> list[Moved]:
        """Queue failed or cancelled jobs again, with fresh attempts: those named, or the failed ones that match."""
        return self._move_jobs(Move.RETRY, ids, filters, states=frozenset({State.FAILED}), reason=reason, all=all)

    def cancel(
        self,
        ids: NameOrNames | None = None,
        *,
        reason: str | None = None,
        all: bool = False,
        **filters: Unpack[Filters],
    ) -> list[Moved]:
        """Cancel queued jobs and ask running ones to stop: those named, or those that match."""
        return self._move_jobs(Move.CANCEL, ids, filters, states=LIVE, reason=reason, all=all)

    @reject_unknown_options
    def delete(self, ids: NameOrNames) -> list[Moved]:
        """Forget these jobs, if they are finished."""
        return [each for batch in self._batches(ids) for each in self._backend.delete(batch)]

    @reject_unknown_options
    def purge(self, older_than: Seconds, *, state: States | None = None, queue: NameOrNames | None = None) -> int:
        """Forget the jobs that finished at least so long ago; return how many."""
        states = FINISHED if (named := parse_states(state)) is None else named
        if not states <= FINISHED:
            raise ConfigurationError(
                f"purge deletes finished jobs only: state must be one of {', '.join(sorted(FINISHED))}, not {state!r}"
            )
        purge = Purge(
            older_than=checks.seconds("older_than", older_than),
            states=states,
            queues=checks.optional(checks.names, "queue", queue),
        )
        number = 0
        while purged := self._backend.purge(purge):
            number += purged
        return number

    @reject_unknown_options
    def pause(self, queues: NameOrNames) -> None:
        """Let no claim take jobs of these queues, until they are resumed."""
        self._backend.pause(checks.names("queues", queues))

    @reject_unknown_options
    def resume(self, queues: NameOrNames) -> None:
        """Let claims take jobs of these queues again."""
        self._backend.resume(checks.names("queues", queues))

    def migrate(self) -> Schema:
        """Bring the store's schema up to date, making the store if there is none; tell which version it had and has."""
        return self._backend.migrate()

    def _open_store(self) -> Backend:
        return open_store(self._store)

    def _build_claim(self, holder: Holder, job: Job, lease: Lease) -> Claim:
        return Claim(holder, job, lease)

    def _build_claims(self, holder: Holder, claims: Sequence[Claim]) -> Claims:
        return Claims(holder, claims)

    def _id_of(self, id: object) -> str:
        return checks.name("id", id)

    def _batches(self, ids: NameOrNames) -> Iterator[list[str]]:
        return batches_of(checks.names_or_empty("ids", ids))

    def _move_jobs(
        self,
        move: Move,
        ids: NameOrNames | None,
        filters: Filters,
        *,
        states: frozenset[State],
        reason: str | None,
        all: bool,
    ) -> list[Moved]:
        query = build_query(move.value, filters, "ids", "reason", "all")
        return self._move(
            move,
            ids,
            query if query.states is not None else replace(query, states=states),
            is_all=all,
            has_condition=has_condition(filters),
            reason=reason,
            example="queue='mail'",
        )
