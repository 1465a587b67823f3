"""Asks a source in a thread of its own, so that one that takes long to answer keeps no other source waiting."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from tenure.client.keeper import ticks
from tenure.core.operations import Hold
from tenure.core.transitions import build_release
from tenure.worker.store_retry import Request, Response, RetryingStore

RESPONSE_TIMEOUT = 1.0
"""Seconds that others wait for an answer, unless the last question had none."""


class RequestThread:
    """Has at most one question under way. `heard` is called, in its thread, whenever one has come to its end."""

    def __init__(self, store: RetryingStore, on_response: Callable[[], None]) -> None:
        self._store = store
        self._on_response = on_response
        self._queue: SimpleQueue[tuple[Request, Future[Response | None]] | None] = SimpleQueue()
        self._outstanding: tuple[Request, Future[Response | None]] | None = None
        self._thread: threading.Thread | None = None

    @property
    def has_outstanding(self) -> bool:
        """Whether there is a question whose end nobody has taken notice of."""
        return self._outstanding is not None

    @property
    def is_in_flight(self) -> bool:
        """Whether the answer is still to come."""
        return self._outstanding is not None and not self._outstanding[1].done()

    def send(self, request: Request) -> Response | None:
        """Return the answer; None if there was none, or it is still to come: then ask the same again."""
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
        """Ask no more. What a question that is under way still takes is given back."""
        self._queue.put(None)
        if self._outstanding is not None:
            request, future = self._outstanding
            future.add_done_callback(lambda done: self._release_claimed(request, done.result()))

    def _start(self) -> None:
        if self._thread is None:
            # A daemon: the process must be able to end while a store does not answer.
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
