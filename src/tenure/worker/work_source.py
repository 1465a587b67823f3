"""One source of a worker: what is to be said to it, what was asked and not answered, and who runs what it gives.

Each source is asked on its own, and if there are several, in a thread of its own. One that does not answer rests for a
moment and is then asked the same again; the others go on meanwhile, and its leases are kept by a keeper of its own.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from tenure.backends.protocol import Claiming
from tenure.client.identity import new_token
from tenure.client.keeper import Keeper, LeaseCallback, ticks
from tenure.client.run import Run
from tenure.core.operations import LARGEST_BATCH, Claimed, ClaimRequest, Settlement
from tenure.worker.handler import Handler
from tenure.worker.request_thread import RequestThread
from tenure.worker.store_retry import ClaimsAndSettles, Request, Response, RetryingStore

HINT_TTL = 0.8
"""Seconds for which claims go on where the last one stopped. After that the next looks at everything, since what became
due behind it may wait for a second at most."""

RESPONSE_CHECK_INTERVAL = 1.0
"""Seconds after which it is looked at again, while its answer is still to come."""


class WorkSource:
    """Used by the claimer alone, but for `ended`, which any thread may add to."""

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
        """Whether it may have something to be claimed."""
        self.unsent: deque[tuple[Run, Settlement | None]] = deque()
        """How runs ended that nobody was told of."""
        self.unconfirmed: list[tuple[Run, Settlement | None]] = []
        """How runs ended that it was told, and has not confirmed."""
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
        """Be asked in a thread of its own; `heard` is called when an answer has come."""
        self._request_thread = RequestThread(self._retrying_store, on_response)

    def close(self) -> None:
        """Be asked no more."""
        if self._request_thread is not None:
            self._request_thread.close()

    @property
    def is_failing(self) -> bool:
        return self._retrying_store.is_failing

    @property
    def has_pending(self) -> bool:
        """Whether it was asked something that it has not answered, or has to be told something."""
        return self._outstanding is not None or bool(self.unsent)

    def is_retry_due(self, now: float) -> bool:
        """Whether it is time to ask again what it did not answer."""
        return self._outstanding is not None and not self.retry_delay(now)

    def retry_delay(self, now: float) -> float:
        """Return for how many seconds it is not to be asked."""
        return RESPONSE_CHECK_INTERVAL if self._is_in_flight else max(0.0, self._retry_at - now)

    def types_to_claim(self, *, is_loop_blocked: bool) -> tuple[str, ...]:
        """Return the types to claim: while the event loop stands still, only those that do not need it."""
        return self._sync_types if is_loop_blocked else self._all_types

    def next_request(self, claim_limit: int, now: float, *, is_loop_blocked: bool) -> Request:
        """Return what to ask; if it did not answer the last time, the same again."""
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
        """Return the same question, with what has ended meanwhile.

        It comes before the claim: that takes back what ran out while the store was away, and must not find it there.
        What was known of the lines then is too old.
        """
        request = None if store_request.claim_request is None else replace(store_request.claim_request, hint=None)
        return replace(store_request, settlements=self._take_unsent(), claim_request=request)

    def send(self, request: Request) -> Response | None:
        """Return the answer; None if there was none: then it rests for a while."""
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
        """Settle at once; None if it did not answer."""
        if self._request_thread is not None and (self._request_thread.has_outstanding or self.is_failing):
            return None
        return self._retrying_store.send(Request(settlements=settlements, claim_request=None, sent_at=ticks()))

    def build_runs(
        self, store_request: Request, claim_request: ClaimRequest, claimed: Claimed, on_lost_or_cancelled: LeaseCallback
    ) -> list[Run]:
        """Return the runs of what it gave, and keep where to go on."""
        jobs, handlers = claimed.jobs, self.handlers
        # A short batch says that nothing lies beyond: then look at everything.
        self._hint = claimed.hint if len(jobs) >= claim_request.limit else None
        # With a hint it has not looked at everything.
        self.may_have_jobs = len(jobs) >= claim_request.limit or claim_request.hint is not None
        return [
            handlers[job.type].build_run(job, claim_request, store_request.sent_at, on_lost_or_cancelled)
            for job in jobs
        ]

    def reset_hint(self) -> None:
        """Let the next claim look at everything."""
        self._hint = None

    @property
    def _is_in_flight(self) -> bool:
        return self._request_thread is not None and self._request_thread.is_in_flight

    def _take_hint(self, now: float) -> object:
        """Return where to go on; None to look at everything again."""
        hint = self._hint if now - self._full_scan_at < HINT_TTL else None
        if hint is None:
            self._full_scan_at = now
        return hint

    def _take_unsent(self) -> list[Settlement]:
        room = min(len(self.unsent), LARGEST_BATCH - len(self.unconfirmed))
        self.unconfirmed += [self.unsent.popleft() for _ in range(room)]
        return [settlement for _, settlement in self.unconfirmed if settlement is not None]
