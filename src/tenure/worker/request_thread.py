"""Send the requests of one source from a background thread, so that a slow source does not delay the others."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from tenure.client.keeper import ticks
from tenure.core.operations import Hold
from tenure.core.transitions import build_release
from tenure.worker.store_retry import Request, Response, RetryingStore

RESPONSE_TIMEOUT = 1.0
"""Seconds that the claimer waits for a response. After a failed request it does not wait."""


class RequestThread:
    """At most one request is outstanding. The thread calls `on_response` when a request has completed or failed."""

    def __init__(self, store: RetryingStore, on_response: Callable[[], None]) -> None:
        self._store = store
        self._on_response = on_response
        self._queue: SimpleQueue[tuple[Request, Future[Response | None]] | None] = SimpleQueue()
        self._outstanding: tuple[Request, Future[Response | None]] | None = None
        self._thread: threading.Thread | None = None

    @property
    def has_outstanding(self) -> bool:
        """Whether there is a request whose response was not fetched yet."""
        return self._outstanding is not None

    @property
    def is_in_flight(self) -> bool:
        """Whether a request is still in flight."""
        return self._outstanding is not None and not self._outstanding[1].done()

    def send(self, request: Request) -> Response | None:
        """Return the response; None if the request failed or is still in flight: then call this again with it."""
        timeout = 0.0 if self._store.is_failing else RESPONSE_TIMEOUT
        if self._outstanding is None:
            self._outstanding = request, Future()
            self._start()
            self._queue.put(self._outstanding)
        try:
            response = self._outstanding[1].result(timeout)
        except TimeoutError:
            return None
        self._outstanding = None
        return response

    def close(self) -> None:
        """Stop the thread. Jobs claimed by a request in flight are released."""
        self._queue.put(None)
        if self._outstanding is not None:
            request, future = self._outstanding
            future.add_done_callback(lambda done: self._release_claimed(request, done.result()))

    def _start(self) -> None:
        if self._thread is None:
            # A daemon: the process must be able to exit while a store hangs.
            self._thread = threading.Thread(target=self._run, name="tenure-request", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (outstanding := self._queue.get()) is not None:
            request, future = outstanding
            future.set_result(self._store.send(request))
            self._on_response()

    def _release_claimed(self, request: Request, response: Response | None) -> None:
        if request.claim_request is None or response is None or response.claimed is None or not response.claimed.jobs:
            return
        holds = [Hold(id=job.id, fence=job.fence, token=request.claim_request.token) for job in response.claimed.jobs]
        settlements = [build_release(hold) for hold in holds]
        self._store.send(Request(settlements=settlements, claim_request=None, sent_at=ticks()))
