"""A source of jobs for a worker: its pending settlements, its outstanding request, and its handlers.

Each source has its own requests and its own keeper; with several sources, also its own request thread. A failed request
is resent after a back-off. Meanwhile the worker continues with the other sources.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from tenure.backends.protocol import Claiming
from tenure.client.identity import new_token
from tenure.client.keeper import Keeper, LeaseCallback, ticks
from tenure.client.run import Run
from tenure.client.settling import unsettled_text
from tenure.core.operations import BUSY, LARGEST_BATCH, Claimed, ClaimRequest, Settlement, Unsettled
from tenure.worker.deferred_settlements import DeferredSettlements
from tenure.worker.handler import Handler
from tenure.worker.request_thread import RequestThread
from tenure.worker.store_retry import ClaimsAndSettles, Request, Response, RetryingStore

log = logging.getLogger(__name__)

HINT_TTL = 0.8
"""Seconds for which claims continue where the last one stopped. Then one claim scans from the start: a job that became
due behind that position waits for at most a second."""

RESPONSE_CHECK_INTERVAL = 1.0
"""Seconds between two checks for the response of a request in flight."""


class WorkSource:
    """Used by the claimer thread only, except `unsent`, to which any thread may append."""

    def __init__(
        self,
        *,
        index: int,
        store: Claiming,
        endpoint: ClaimsAndSettles,
        keeper: Keeper,
        handlers: Mapping[str, Handler],
        claim_request: ClaimRequest,
    ) -> None:
        self.index = index
        self.store = store
        self.keeper = keeper
        self.handlers = handlers
        self.claim_request = claim_request
        self.may_have_jobs = True
        """Whether the source may have jobs to claim."""
        self.unsent: deque[tuple[Run, Settlement | None]] = deque()
        """Ended runs whose settlement has not been sent. None: the handler settled the run itself, or lost it."""
        self.unconfirmed: list[tuple[Run, Settlement | None]] = []
        """Ended runs whose settlement was sent and is not confirmed yet."""
        self.deferred = DeferredSettlements()
        self.is_claiming_paused = False
        """Whether the source claims nothing, because too many settlements are deferred."""
        self._retrying_store = RetryingStore(endpoint)
        self._request_thread: RequestThread | None = None
        self._all_types = tuple(handlers)
        self._sync_types = tuple(type for type, handler in handlers.items() if not handler.is_async)
        self._outstanding: Request | None = None
        self._retry_at = 0.0
        self._hint: object = None
        self._full_scan_at = ticks()
        for handler in handlers.values():
            handler.source = self

    def use_request_thread(self, on_response: Callable[[], None]) -> None:
        """Send requests from a background thread; call `on_response` when one completes."""
        self._request_thread = RequestThread(self._retrying_store, on_response)

    def close(self) -> None:
        """Stop the request thread."""
        if self._request_thread is not None:
            self._request_thread.close()

    @property
    def is_failing(self) -> bool:
        return self._retrying_store.is_failing

    @property
    def has_pending(self) -> bool:
        """Whether a request is outstanding or settlements are still to be sent."""
        return self._outstanding is not None or bool(self.unsent) or bool(self.deferred)

    def defer(self, unsettled: Mapping[Run, Unsettled], elapsed: float) -> None:
        """Send the settlements of these runs again later; with too many deferred ones, claim nothing.

        `elapsed` is the time that their request took.
        """
        now = ticks()
        deferred = [(run, each) for run, each in self.unconfirmed if each is not None and run in unsettled]
        for run, settlement in deferred:
            self.deferred.add((run, settlement), now, elapsed, is_busy=unsettled[run] is BUSY)
        self.unconfirmed = [ended for ended in self.unconfirmed if ended[0] not in unsettled]
        was_paused = self.is_claiming_paused
        # Claim again when half of them are recorded: otherwise each released lock would end and begin a pause.
        self.is_claiming_paused = len(self.deferred) * (2 if was_paused else 1) >= LARGEST_BATCH
        if self.is_claiming_paused and not was_paused:
            run, settlement = deferred[-1]
            log.error(
                "worker claims no more jobs of %r: %s outcomes are not recorded; the last one: %s",
                ", ".join(self.handlers),
                len(self.deferred),
                unsettled_text(settlement, unsettled[run]),
            )

    def resend_deferred(self, now: float) -> None:
        """Queue the settlements that are due again, behind fresh ones."""
        # A failed request is resent with all unsent settlements: during an outage they would become more than a batch.
        if self._outstanding is None:
            self.unsent.extend(self.deferred.take_due(now))

    def has_request(self, now: float) -> bool:
        """Return whether there is a request to send now."""
        if self.retry_delay(now):
            return False
        if now >= self.deferred.due_at:
            self.resend_deferred(now)
        return self._outstanding is not None or bool(self.unsent)

    @property
    def unrecorded(self) -> list[Run]:
        """The ended runs whose settlement the store has not confirmed."""
        return [*(run for run, _ in (*self.unconfirmed, *self.unsent)), *self.deferred.runs]

    def is_retry_due(self, now: float) -> bool:
        """Whether a failed request is due to be resent."""
        return self._outstanding is not None and not self.retry_delay(now)

    def retry_delay(self, now: float) -> float:
        """Return for how many seconds no request should be sent."""
        return RESPONSE_CHECK_INTERVAL if self._is_in_flight else max(0.0, self._retry_at - now)

    def types_to_claim(self, *, is_loop_blocked: bool) -> tuple[str, ...]:
        """Return the types to claim: while the event loop is blocked, only those of synchronous handlers.

        No types while too many settlements are deferred: each claim would add to them.
        """
        if self.is_claiming_paused:
            return ()
        return self._sync_types if is_loop_blocked else self._all_types

    def next_request(self, claim_limit: int, now: float, *, is_loop_blocked: bool) -> Request:
        """Return the next request to send; the previous one, if it failed."""
        if self._outstanding is not None and self._request_thread is not None and self._request_thread.has_outstanding:
            return self._outstanding
        if self._outstanding is not None:
            return self._rebuild_request(self._outstanding)
        types, request = self.types_to_claim(is_loop_blocked=is_loop_blocked), None
        if claim_limit and types:
            hint = self._take_hint(now)
            request = replace(self.claim_request, types=types, limit=claim_limit, token=new_token(), hint=hint)
        return Request(settlements=self._take_unsent(), claim_request=request, sent_at=now)

    def _rebuild_request(self, store_request: Request) -> Request:
        """Return the same request, with the settlements added meanwhile.

        They must come before the claim: the claim reaps leases that expired during the outage, and must not reap the
        jobs of these runs. The hint is dropped because it is too old.
        """
        request = None if store_request.claim_request is None else replace(store_request.claim_request, hint=None)
        return replace(store_request, settlements=self._take_unsent(), claim_request=request)

    def send(self, request: Request) -> Response | None:
        """Send a request and return the response; None if the request failed: then back off."""
        self._outstanding = request
        response = (
            self._retrying_store.send(request) if self._request_thread is None else self._request_thread.send(request)
        )
        if response is None:
            self._retry_at = 0.0 if self._is_in_flight else ticks() + self._retrying_store.next_backoff()
            return None
        self._outstanding, self._retry_at = None, 0.0
        return response

    def settle_now(self, settlements: list[Settlement]) -> Response | None:
        """Settle at once; return None if the store is unavailable."""
        if self._request_thread is not None and (self._request_thread.has_outstanding or self.is_failing):
            return None
        return self._retrying_store.send(Request(settlements=settlements, claim_request=None, sent_at=ticks()))

    def build_runs(
        self, store_request: Request, claim_request: ClaimRequest, claimed: Claimed, on_lost_or_cancelled: LeaseCallback
    ) -> list[Run]:
        """Return the runs of the claimed jobs, and store the hint for the next claim."""
        jobs, handlers = claimed.jobs, self.handlers
        # A short batch means that no job is left beyond it: scan from the start next time.
        self._hint = claimed.hint if len(jobs) >= claim_request.limit else None
        # With a hint the claim did not scan everything.
        self.may_have_jobs = len(jobs) >= claim_request.limit or claim_request.hint is not None or claimed.is_cut
        return [
            handlers[job.type].build_run(job, claim_request, store_request.sent_at, on_lost_or_cancelled)
            for job in jobs
        ]

    def reset_hint(self) -> None:
        """Make the next claim scan from the start."""
        self._hint = None

    @property
    def _is_in_flight(self) -> bool:
        return self._request_thread is not None and self._request_thread.is_in_flight

    def _take_hint(self, now: float) -> object:
        """Return the position to continue from; None to scan from the start."""
        hint = self._hint if now - self._full_scan_at < HINT_TTL else None
        if hint is None:
            self._full_scan_at = now
        return hint

    def _take_unsent(self) -> list[Settlement]:
        room = min(len(self.unsent), LARGEST_BATCH - len(self.unconfirmed))
        self.unconfirmed += [self.unsent.popleft() for _ in range(room)]
        return [settlement for _, settlement in self.unconfirmed if settlement is not None]
