"""`Jobs`, the client: every operation on jobs, over any store."""

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
    WorkerInfo,
)
from tenure.errors import ConfigurationError
from tenure.tasks.registry import Registry

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tenure.client.aio import AsyncJobs
    from tenure.testing import TestQueue
    from tenure.worker import Summary, Worker


class Jobs(Registry, Source[Backend, Claim]):
    """A store of jobs and the tasks that workers run. The store is opened on first use. Threads may share a `Jobs`.

    `store` is a URL, a function that returns a URL, a `redis.Redis` or a `Backend`. The default is `$TENURE_URL`, else
    `sqlite:///tenure.db`. `backoff` is the delay between attempts of tasks without their own. `retention` is how long
    workers keep finished jobs before they delete them.
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
        """The async facade: the same methods as coroutines, over the same store."""
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
        """Store a job and return its id.

        - `type` names the task; `payload` is a JSON object of at most 256 KiB.
        - `priority` is -32,768 to 32,767; higher runs first.
        - `delay` is a number of seconds or a timedelta, by the store's clock; `run_at` is a datetime with a time zone.
        - `key`: at most one live (queued or running) job of a queue has the key. If the key is taken, `on_conflict`
          `"keep"` returns the id of the live job, and `"raise"` raises `KeyTaken`.
        - `max_attempts` is how often the job is claimed before it is failed; None is no limit. `max_crashes` is how
          often its lease may expire.
        - `timeout` is the time limit of a run, in seconds.
        - `meta` are labels, strings to strings.
        - `id`: enqueueing the same id twice stores one job, so a request that failed can be repeated.
        - `connection` is the caller's connection to the same database: the job is part of its transaction.

        Raises `ConfigurationError` or `InvalidPayload` for a value that cannot be stored, and `StoreUnavailable`.
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
        """Store at most 10,000 jobs in one transaction, all or none; return their ids in order.

        `connection` is the caller's connection to the same database: the jobs are part of its transaction.
        """
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
        """Claim up to `limit` due jobs (at most 1,000), waiting up to `wait` seconds for the first.

        A claim holds its job for `lease` seconds (1 to 86,400). Use the claims as a context manager: the leases are
        extended inside the block, and unsettled claims are released on exit. `worker` is the name shown to operators,
        by default the host and the process id.
        """
        claims: Claims = self._claim_with_wait(request_of(queues, types, limit, lease, worker), wait)
        return claims

    @reject_unknown_options
    def attach(self, id: str, *, fence: int, token: str, lease: Seconds = 60.0) -> Claim:
        """Re-attach to a claim made elsewhere, given its id, fence and token.

        Raises `ClaimLost` if the job is not running with this fence. The store checks the token when the claim is
        extended or settled. The remaining lease is unknown here, so `is_lost` is true until the first extension;
        settling works nevertheless. As a context manager the claim is extended on entry and kept alive.
        """
        return self._attach(id, fence, token, lease)

    @reject_unknown_options
    def reap(self, *, worker: str | None = None) -> list[Reaped]:
        """Reap every claim whose lease expired; with `worker`, every claim of a worker that is known to be dead.

        Each claim request reaps expired leases as well; call `reap` to do so now.
        """
        reaped = self._reap(worker)
        if worker is not None:
            # After the reap: the history of each job quotes the worker's last heartbeat.
            self._backend.beat(Heartbeat(name=worker, host="", pid=0, version=""), 0.0)
        return reaped

    @reject_unknown_options
    def get(self, id: str) -> Job | None:
        """Return the job, or None if no job has this id."""
        return self._job(self._id_of(id))

    @reject_unknown_options
    def wait_for(self, id: str, timeout: Seconds | None = None) -> Job:
        """Wait until the job is completed and return it; `timeout` is in seconds, None waits without a limit.

        Raises `JobFailed` or `JobCancelled` if the job ended otherwise, and `TimeoutError` if it has not ended.
        """
        seconds = checks.optional(checks.seconds, "timeout", timeout)
        for pause in chain(results.poll_delays(seconds), [0.0]):
            if (job := results.completed_job(id, self.get(id))) is not None:
                return job
            time.sleep(pause)
        raise results.timeout_error(id, seconds)

    def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the tasks until a signal, or with `drain=True` until no job is due; return a summary.

        - `queues` and `types` restrict which jobs are claimed.
        - `concurrency` is how many jobs run at a time (10).
        - `lease` is how long a claim holds without an extension (60 seconds).
        - `grace` is how long handlers may finish after SIGTERM, SIGINT or SIGHUP (30 seconds). A second signal ends
          the grace period.

        Async tasks run on an event loop, sync tasks in threads; neither is the calling thread.
        """
        from tenure.worker import work

        return work(self, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "Worker":
        """Return a worker with the options of `work`. As a context manager it runs in the background."""
        from tenure.worker import Worker

        return Worker(self, options)

    def testing(self) -> "AbstractContextManager[TestQueue]":
        """Return a context manager for tests: inside the block this `Jobs` and its tasks use a new in-memory store.

        The block yields a `TestQueue` to inspect and run the jobs: `with jobs.testing() as queue`.
        """
        from tenure.testing.testing_queue import use_test_queue

        return use_test_queue(self)

    def find(self, **filters: Unpack[Filters]) -> Iterator[Job]:
        """Yield the matching jobs, newest first, read page by page; without filters, all jobs.

        Filters: `state`, `queue`, `type` (a name or several), `key`, `worker`, `error` (a part of the last error),
        `since` (seconds since the job finished or, if unfinished, was enqueued), `attempts_over`, `due`. All filters
        must match. `newest_first=False` reverses the order.
        """
        query = build_query("find", filters)
        return (job for page in self._pages(query) for job in page)

    def stats(self) -> Stats:
        """Count the jobs by queue, type and state."""
        return self._backend.stats()

    @reject_unknown_options
    def explain(self, id: str) -> Explanation | None:
        """Explain why the job is not running, or how it runs; None if no job has this id."""
        if (job := self.get(id)) is None:
            return None
        workers = self._backend.workers()
        outlook = self._backend.explain(job.id, *claim_filters_for(job, workers))
        return None if outlook is None else explain(outlook, workers)

    @reject_unknown_options
    def counts(self, since: Seconds = 3600.0) -> list[Count]:
        """Count events by minute, queue and kind over the last `since` seconds, at most 86,400 (a day)."""
        return self._backend.counts(checks.seconds("since", since, most=COUNTS_KEPT))

    def workers(self) -> list[WorkerInfo]:
        """Return the workers with a recent heartbeat."""
        return self._backend.workers()

    def retry(
        self,
        ids: NameOrNames | None = None,
        *,
        reason: str | None = None,
        all: bool = False,
        **filters: Unpack[Filters],
    ) -> list[Moved]:
        """Queue failed or cancelled jobs again and reset their attempts.

        Pass ids, or the filters of `find` (failed jobs, unless `state` is set), or `all=True`. `reason` is
        recorded in the history. Returns for each job its new state, or why it was not moved.
        """
        return self._move_jobs(Move.RETRY, ids, filters, states=frozenset({State.FAILED}), reason=reason, all=all)

    def cancel(
        self,
        ids: NameOrNames | None = None,
        *,
        reason: str | None = None,
        all: bool = False,
        **filters: Unpack[Filters],
    ) -> list[Moved]:
        """Cancel queued jobs and request the cancellation of running jobs.

        Pass ids, or the filters of `find` (queued and running jobs, unless `state` is set), or `all=True`.
        `reason` is recorded in the history. A running job that completes nevertheless is completed. Returns for each
        job its state, or why it was not cancelled.
        """
        return self._move_jobs(Move.CANCEL, ids, filters, states=LIVE, reason=reason, all=all)

    @reject_unknown_options
    def delete(self, ids: NameOrNames) -> list[Moved]:
        """Delete finished jobs by id; return for each id the result, or why the job was not deleted."""
        return [each for batch in self._batches(ids) for each in self._backend.delete(batch)]

    @reject_unknown_options
    def purge(self, older_than: Seconds, *, state: States | None = None, queue: NameOrNames | None = None) -> int:
        """Delete jobs that finished at least `older_than` seconds ago; return how many.

        `state` is any of completed, failed and cancelled, by default all three.
        """
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
        """Stop claims from taking jobs of these queues until `resume`. Running jobs continue."""
        self._backend.pause(checks.names("queues", queues))

    @reject_unknown_options
    def resume(self, queues: NameOrNames) -> None:
        """Let claims take jobs of paused queues again."""
        self._backend.resume(checks.names("queues", queues))

    def migrate(self) -> Schema:
        """Create the store's schema or migrate it to this version; return the version before and now."""
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
