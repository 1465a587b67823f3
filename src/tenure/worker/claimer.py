"""Claim jobs for the executors and settle ended runs, in one round trip wherever possible.

With several sources, each round of claims starts at the next source and ends when the limit is reached.

One thread does all of this. The same thread shuts the worker down: it stops claiming, waits for the handlers, releases
unfinished jobs, and sends the last settlements.
"""

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from tenure.client.keeper import Lease, ticks
from tenure.client.run import Run, StopReason
from tenure.client.settling import unsettled_text
from tenure.core.job import Outcome
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import LARGEST_BATCH, Settlement, Unsettled
from tenure.core.transitions import build_release
from tenure.errors import StoreUnavailable
from tenure.worker.prefetch import Prefetch
from tenure.worker.quarantine import Quarantine
from tenure.worker.run_queue import RunQueue
from tenure.worker.started_jobs import StartedJobs
from tenure.worker.store_retry import Request, Response
from tenure.worker.summary import Summary
from tenure.worker.wakeup import Wakeup
from tenure.worker.work_source import WorkSource

log = logging.getLogger(__name__)

SETTLE_BATCH_SIZE = 128
"""Number of settlements that are sent without waiting for a claim."""
SETTLE_BATCH_DELAY = 0.005
"""Seconds that a settlement may wait for others to share its round trip, while jobs are buffered."""
MAX_BUFFER_TIME = 1.0
"""Seconds that a job may stay buffered. Then it is released for other workers."""
INTERRUPT_TIMEOUT = 2.0
"""Seconds that cancelled or interrupted handlers have to end."""
MAX_IDLE_WAIT = 1.0
"""Longest wait of the claimer, in seconds, if no wake-up arrives."""
FINAL_SETTLE_TIMEOUT = 5.0
"""Seconds for which a stopping worker tries to send its last settlements."""


class Claimer:
    """The claimer of one worker; `run` is the thread. `stop` is safe in any thread and in a signal handler."""

    def __init__(
        self,
        *,
        name: str,
        sources: Sequence[WorkSource],
        run_queue: RunQueue,
        arm_poller: Callable[[WorkSource], None],
        interrupt: Callable[[Run, StopReason], None],
        grace: float,
        drain: bool,
        is_closed: Callable[[], bool],
        started_jobs: StartedJobs | None = None,
    ) -> None:
        self.last_iteration_at = ticks()
        self.is_loop_blocked = False
        self._name = name
        self._sources = sources
        self._rotation = 0
        self._run_queue = run_queue
        self._arm_poller = arm_poller
        self._interrupt = interrupt
        self.summary = Summary()
        self._grace = grace
        self._drain = drain
        self._is_closed = is_closed
        self._started_jobs = started_jobs
        self._prefetch = Prefetch()
        self._wakeup = Wakeup()
        self._slot_idle = Wakeup()
        self._abandoned: set[Run] = set()
        self._quarantine = Quarantine(run_queue)
        self._stopping_since: float | None = None
        self._grace_ends_at = math.inf
        self._skips_grace = False
        self._last_round_trip_at = ticks()
        self._ended_since_trip = 0
        if len(sources) > 1:
            for source in sources:
                source.use_request_thread(self._wakeup.set)

    @property
    def is_store_failing(self) -> bool:
        return any(source.is_failing for source in self._sources)

    @property
    def has_abandoned(self) -> bool:
        """Whether a handler was still running when the worker ended."""
        return bool(self._abandoned)

    @property
    def is_stopping(self) -> bool:
        return self._stopping_since is not None

    def settle(self, run: Run, settlement: Settlement | None) -> None:
        """Queue the settlement of an ended run. The executor slot is free at once; the claimer thread sends it."""
        if not run.is_in_this_process():
            # A handler forked, and the child process returned from it: the child must not run jobs of the parent.
            os._exit(1)
        if run not in self._abandoned:
            run.handler.source.unsent.append((run, settlement))
            self._wakeup.set()

    def notify_idle_slot(self) -> None:
        """Record that an executor slot is idle, and wake the claimer."""
        self._slot_idle.set()
        self._wakeup.set()

    def request_poll(self, source: WorkSource | None = None) -> None:
        """Make the claimer poll a source, or all sources."""
        for each in self._sources if source is None else [source]:
            each.may_have_jobs = True
        self._wakeup.set()

    def quiet(self) -> None:
        """Stop claiming, and end when the handlers have ended, without a time limit."""
        if self._stopping_since is None:
            self._stopping_since = ticks()
        self._wakeup.set()

    def stop(self, *, now: bool = False) -> None:
        """Stop claiming, and end when the handlers have ended or the grace period is over; with `now`, do not wait."""
        self.quiet()
        self._grace_ends_at = min(self._grace_ends_at, ticks() + self._grace)
        self._skips_grace = self._skips_grace or now
        self._wakeup.set()

    def run(self) -> None:
        try:
            while self._stopping_since is None:
                self._run_once()
        except BaseException:
            # Release all claims: otherwise the keeper thread would extend leases that no thread settles.
            self.stop(now=True)
            self._shut_down()
            raise
        else:
            self._shut_down()
        finally:
            for source in self._sources:
                source.close()

    def _shut_down(self) -> None:
        log.info("worker %s stopping; running jobs: %s", self._name, len(self._run_queue.running))
        for run in self._run_queue.started_runs():
            run.is_worker_stopping = True
        self._release(self._run_queue.take_back_buffered() + self._run_queue.take_back_submitted())
        self._wait_for_handlers(lambda: self._grace_ends_at)
        self._abandon_handlers()
        self._send_final_settlements()

    def _run_once(self) -> None:
        """Make the next round trip, or wait until one is needed."""
        now = self.last_iteration_at = ticks()
        if self.is_loop_blocked or self._run_queue.has_buffered_since(now - MAX_BUFFER_TIME):
            self._release_buffered()
        claim_limit = self._claim_limit()
        ready = [source for source in self._sources if not source.retry_delay(now)]
        for source in ready:
            if now >= source.deferred.due_at:
                source.resend_deferred(now)
        unsent = sum(len(source.unsent) for source in ready)
        may_have_jobs = any(
            source.may_have_jobs and source.types_to_claim(is_loop_blocked=self.is_loop_blocked) for source in ready
        )
        if any(source.is_retry_due(now) for source in ready) or (claim_limit and (may_have_jobs or unsent)):
            self._round_trip(claim_limit)
        elif unsent >= SETTLE_BATCH_SIZE or (unsent and not self._run_queue.buffered):
            self._round_trip(0)
        elif unsent:
            self._slot_idle.wait(SETTLE_BATCH_DELAY)
            self._round_trip(self._claim_limit())
        elif self._is_drained():
            self.stop()
        elif not self._wakeup.wait(
            min(MAX_BUFFER_TIME / 4 if self._run_queue.buffered else MAX_IDLE_WAIT, self._shortest_retry_delay(now))
        ):
            # No wake-up arrived, but the poller may have died; poll anyway.
            self.request_poll()

    def _is_drained(self) -> bool:
        if not self._drain or self._run_queue.size or self.is_loop_blocked:
            return False
        return not any(source.has_pending for source in self._sources)

    def _shortest_retry_delay(self, now: float) -> float:
        """Return the seconds until the next retry of a source, at most `MAX_IDLE_WAIT`."""
        delays = (source.retry_delay(now) or source.deferred.due_at - now for source in self._sources)
        return max(0.0, min([MAX_IDLE_WAIT, *delays]))

    def _claim_limit(self) -> int:
        """Return how many jobs to claim now."""
        if self._stopping_since is not None:
            return 0
        prefetch = 0 if self._quarantine.has_suspects else self._prefetch.size
        free = self._run_queue.concurrency - self._run_queue.size
        if free <= 0 and len(self._run_queue.buffered) > prefetch // 2:
            return 0
        return self._quarantine.limit(max(0, min(LARGEST_BATCH, free + prefetch)))

    def _round_trip(self, claim_limit: int) -> None:
        """Settle and claim on each source in one round trip; resend the previous request where it failed."""
        started_at = ticks()
        runs: list[Run] = []
        claimed: list[WorkSource] = []
        has_response = False
        # Rotate only when claiming: if settling rotated too, the same source could come first at every claim.
        self._rotation += claim_limit > 0
        for source in self._ready_sources(started_at):
            # A poller watches each source that had no jobs. With settlements to send, a claim costs no extra trip.
            may_claim = source.may_have_jobs or source.unsent or self._drain
            left = max(0, claim_limit - len(runs)) if may_claim else 0
            request = source.next_request(left, started_at, is_loop_blocked=self.is_loop_blocked)
            if request.settlements or request.claim_request is not None:
                response = source.send(request)
                if response is None:
                    if self._is_closed():
                        raise StoreUnavailable("the Jobs of this worker is closed; stop the worker first")
                    continue
                has_response = True
                if request.claim_request is not None and response.claimed is not None:
                    runs += self._build_runs(source, request, response)
                    claimed.append(source)
                deferred = self._record_settled(source.unconfirmed, response)
                if self._started_jobs is not None:
                    # The handlers have ended: if another job kills this process, these jobs count no crash.
                    self._started_jobs.remove(deferred)
                if deferred or source.is_claiming_paused:
                    source.defer(deferred, response.elapsed)
            self._end_leases(source)
        if claimed:
            self._start_unexpired(runs)
            self._arm_idle_pollers(claimed)
        # If the handlers settled all runs themselves, no request was sent: there is no round trip to measure.
        if has_response:
            self._record_round_trip(started_at)

    def _ready_sources(self, now: float) -> Iterator[WorkSource]:
        """Yield the sources without a pending retry, in rotation; a source with a job to be isolated comes first."""
        count = len(self._sources)
        first = self._quarantine.isolates_for
        start = self._rotation if first is None else self._sources.index(first)
        for offset in range(count):
            source = self._sources[(start + offset) % count]
            if not source.retry_delay(now):
                yield source

    def _record_round_trip(self, started_at: float) -> None:
        # Measured from start to start: the settlements in this trip accumulated during the previous one.
        self._prefetch.record(
            ended=self._ended_since_trip, elapsed=started_at - self._last_round_trip_at, round_trip=ticks() - started_at
        )
        self._ended_since_trip, self._last_round_trip_at = 0, started_at

    def _build_runs(self, source: WorkSource, store_request: Request, response: Response) -> list[Run]:
        if store_request.claim_request is None or response.claimed is None:
            return []
        runs = source.build_runs(
            store_request, store_request.claim_request, response.claimed, self._on_lost_or_cancelled
        )
        source.keeper.keep([run.lease for run in runs])
        return runs

    def _start_unexpired(self, runs: Sequence[Run]) -> None:
        # Release all expired runs before the next claim: that claim would reap them and count a crash.
        now = ticks()
        self._release([run for run in runs if run.lease.valid_until <= now])
        runs = [run for run in runs if now < run.lease.valid_until]
        if self._stopping_since is not None:
            self._release(runs)
        else:
            self._start(runs)

    def _arm_idle_pollers(self, claimed: Sequence[WorkSource]) -> None:
        """Arm the pollers of the sources that had no more jobs."""
        for source in claimed:
            source.may_have_jobs = source.may_have_jobs or self._quarantine.is_isolating
            # While the event loop is blocked, the store may have async jobs that must not be claimed: the poller would
            # return at once.
            if not source.may_have_jobs and not self._drain and not self.is_loop_blocked:
                self._arm_poller(source)

    def _start(self, runs: Sequence[Run]) -> None:
        """Release the runs that may not start, then start the others: a started job may crash this process."""
        buffered = self._run_queue.take_back_buffered() if any(run.job.crashes for run in runs) else []
        admitted = self._quarantine.admit(runs)
        rest = [*buffered, *(run for run in runs if run not in admitted)] if len(admitted) < len(runs) else buffered
        if rest:
            self._prefetch.reset()
            self._release_now(rest)
        self._run_queue.add(admitted)

    def _release_now(self, runs: Sequence[Run]) -> None:
        for source in self._sources:
            own = [run for run in runs if run.handler.source is source]
            if own:
                # The hint points past the released jobs; the next claim must find them.
                source.reset_hint()
                self._release_now_to(source, own)

    def _release_now_to(self, source: WorkSource, runs: Sequence[Run]) -> None:
        settlements = [build_release(run.lease.hold) for run in runs]
        response = source.settle_now(settlements)
        if response is None:
            self._release(runs)
            return
        deferred = self._record_settled(list(zip(runs, settlements, strict=True)), response)
        self._release(list(deferred))
        ended = [run for run in runs if run not in deferred]
        self._log_ended_runs(ended)
        self._quarantine.remove(ended)
        source.keeper.end(*(run.lease for run in ended))

    def _on_lost_or_cancelled(self, lease: Lease) -> None:
        """Stop a handler whose claim is lost or cancelled. The keeper thread calls this."""
        run = self._run_queue.find_by_lease(lease)
        if run is not None:
            self._interrupt(run, StopReason.LOST if lease.is_lost else StopReason.CANCEL)

    def _record_settled(
        self, unconfirmed: Sequence[tuple[Run, Settlement | None]], response: Response
    ) -> dict[Run, Unsettled]:
        """Record the results of settlements; return the runs whose settlement has to be sent again."""
        results = iter(response.settled)
        outcomes: list[Outcome] = []
        deferred: dict[Run, Unsettled] = {}
        rejected: dict[Unsettled, list[tuple[Run, Settlement]]] = {}
        for run, settlement in unconfirmed:
            if settlement is None:
                continue
            settled = next(results)
            if settled:
                run.record_outcome(settlement.outcome)
                outcomes.append(settlement.outcome)
                self.summary.prevented += settlement.found_done
            elif isinstance(settled, Unsettled) and settled.may_retry:
                deferred[run] = settled
                if settled.rejection not in {None, run.logged_reason}:
                    run.logged_reason = settled.rejection
                    rejected.setdefault(settled, []).append((run, settlement))
            elif isinstance(settled, Unsettled):
                self._record_rejected(run, settlement, settled)
            else:
                self._record_lost(run)
        for outcome, same in groupby(outcomes):
            self.summary.record(outcome, len(list(same)))
        for unsettled, runs in rejected.items():
            self._log_rejected(runs, unsettled)
        return deferred

    def _end_leases(self, source: WorkSource) -> None:
        """Stop extending the leases of runs whose settlement the store has confirmed."""
        for run, settlement in source.unconfirmed:
            if settlement is None:
                self._record_settled_by_handler(run)
        self._log_ended_runs(run for run, _ in source.unconfirmed)
        self._quarantine.remove(run for run, _ in source.unconfirmed)
        source.keeper.end(*(run.lease for run, _ in source.unconfirmed))
        if self._started_jobs is not None:
            self._started_jobs.remove(run for run, _ in source.unconfirmed)
        self._ended_since_trip += len(source.unconfirmed)
        source.unconfirmed = []

    def _record_settled_by_handler(self, run: Run) -> None:
        if run.outcome is not None:
            self.summary.record(run.outcome)
            self.summary.prevented += run.outcome is Outcome.COMPLETED and run.found_done
        elif run.unsettled is not None:
            self._record_rejected(run, *run.unsettled)
        else:
            self._record_lost(run)

    def _record_rejected(self, run: Run, settlement: Settlement, unsettled: Unsettled) -> None:
        if unsettled.is_failed:
            run.record_outcome(Outcome.FAILED)
            self.summary.record(Outcome.FAILED)
        else:
            self.summary.unrecorded += 1
        self._log_rejected([(run, settlement)], unsettled)

    def _log_rejected(self, runs: Sequence[tuple[Run, Settlement]], unsettled: Unsettled) -> None:
        (run, settlement), *others = runs
        text = unsettled_text(settlement, unsettled, *(each for _, each in others))
        log.error("%s", text, extra={"jobs": [each.id for each, _ in runs]} if others else job_log_fields(run.job))

    def _record_lost(self, run: Run) -> None:
        self.summary.lost += 1
        log.warning("outcome of job %s discarded: its claim was lost", run.id, extra=job_log_fields(run.job))

    def _log_ended_runs(self, runs: Iterable[Run]) -> None:
        # Checked once for all runs: if DEBUG is off, logging must cost nothing per job.
        if not log.isEnabledFor(logging.DEBUG):
            return
        now = ticks()
        for run in runs:
            if run.outcome is not None:
                duration = "not started" if run.started_at is None else f"{now - run.started_at:.2f} s after it started"
                log.debug(
                    "job %s (%s) ended: %s, %s",
                    run.id,
                    run.job.type,
                    run.outcome,
                    duration,
                    extra=job_log_fields(run.job),
                )

    def _release_buffered(self) -> None:
        runs = self._run_queue.take_back_buffered()
        if self.is_loop_blocked:
            runs += self._run_queue.take_back_submitted()
        self._prefetch.reset()
        self._release(runs)

    def _release(self, runs: Sequence[Run]) -> None:
        for run in runs:
            run.handler.source.unsent.append((run, build_release(run.lease.hold)))

    def _wait_for_handlers(self, until: Callable[[], float]) -> None:
        # `until` is called each time: `stop` may shorten the time of a quiet worker.
        while self._run_queue.running and not self._skips_grace and (now := ticks()) < until():
            self.last_iteration_at = now
            if any(source.has_request(now) for source in self._sources):
                self._round_trip(0)
            else:
                self._wakeup.wait(min(MAX_IDLE_WAIT, self._shortest_retry_delay(now), max(0.0, until() - ticks())))

    def _abandon_handlers(self) -> None:
        """Cancel or interrupt the running handlers, and release the jobs of handlers that do not end."""
        for run in self._run_queue.started_runs():
            self._interrupt(run, StopReason.SHUTDOWN)
        self._skips_grace = False
        ends_at = ticks() + INTERRUPT_TIMEOUT
        self._wait_for_handlers(lambda: ends_at)
        self._abandoned.update(self._run_queue.abandon_all())
        ended = {run for source in self._sources for run in source.unrecorded}
        runs = [run for run in self._abandoned if run not in ended]
        self._release(runs)
        for run in runs:
            log.warning(
                "job %s is still running after the grace period; released for other workers",
                run.id,
                extra=job_log_fields(run.job),
            )

    def _send_final_settlements(self) -> None:
        until = ticks() + FINAL_SETTLE_TIMEOUT
        for source in self._sources:
            # All at once: with the pauses between batches, time would be left for a few hundred.
            source.unsent.extend(source.deferred.take_all())
        while any(source.has_pending for source in self._sources) and (now := ticks()) < until:
            if not any(source.has_request(now) for source in self._sources):
                time.sleep(self._shortest_retry_delay(now))
            self._round_trip(0)
        unrecorded = [run for source in self._sources for run in source.unrecorded]
        if unrecorded:
            self.summary.unrecorded += len(unrecorded)
            log.error(
                "store unavailable, jobs locked or outcomes rejected while stopping; job outcomes not recorded: %s",
                len(unrecorded),
            )
            for run in unrecorded:
                log.warning(
                    "outcome of job %s not recorded; it runs again after its lease expires",
                    run.id,
                    extra=job_log_fields(run.job),
                )
                run.handler.source.keeper.end(run.lease)
