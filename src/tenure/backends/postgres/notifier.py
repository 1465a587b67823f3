"""Tell all processes that wait for jobs that there are some.

A ring follows the commit that it tells of, in a transaction and a thread of its own: whoever enqueues does not wait for
it, and shares no lock with others who do. It may be lost, for those who wait also look by themselves.
"""

import json
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from queue import Empty, SimpleQueue

from tenure.errors import TenureError

NOTIFY_INTERVAL = 0.005
"""Seconds between two rings at least; what is marked meanwhile is told in one."""
IDLE_THREAD_TTL = 10.0
"""Seconds without a mark, after which the thread ends."""
FLUSH_TIMEOUT = 2.0
"""Seconds that a last ring has when the store is closed."""

LONGEST_CHANNEL = 63
LONGEST_PAYLOAD = 1000
"""Bytes, of the 8000 that the server takes."""


def channel_of(schema: str) -> str:
    """Return where the rings of a store are heard; no other store of the database has the same."""
    channel = f"tenure_{schema}"
    if len(channel) <= LONGEST_CHANNEL:
        return channel
    return f"tenure_{schema[:39]}_{sha256(schema.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Notification:
    """There may be jobs of these queues, None for any; `sender` is the handle that says so."""

    sender: str
    queues: frozenset[str] | None

    def payload(self) -> str:
        text = json.dumps([self.sender, None if self.queues is None else sorted(self.queues)], ensure_ascii=False)
        return text if len(text.encode()) <= LONGEST_PAYLOAD else Notification(self.sender, None).payload()


def parse_notification(payload: str) -> Notification:
    """Return what was heard. What cannot be understood may mean any queue."""
    with suppress(ValueError, TypeError, RecursionError):
        sender, queues = json.loads(payload)
        return Notification(str(sender), None if queues is None else frozenset(queues))
    return Notification("", None)


class Notifier:
    """Sends what is marked, soon. The thread is there only while it has something to do."""

    def __init__(self, send: Callable[[frozenset[str] | None], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        # No event: whoever is interrupted as he sets one keeps its lock for ever.
        self._signal: SimpleQueue[None] = SimpleQueue()
        self._is_pending = False
        self._closing = threading.Event()
        self._pending_queues: set[str | None] = set()
        self._thread: threading.Thread | None = None

    def notify(self, queues: Collection[str] | None) -> None:
        """Have these queues told, None for any; return at once. A ring of no queue only shows that rings are heard."""
        with self._lock:
            if self._closing.is_set():
                return
            self._pending_queues.update([None] if queues is None else queues)
            if not self._is_pending:
                self._signal.put(None)
            self._is_pending = True
            if self._thread is None:
                self._start()

    def close(self) -> None:
        """Send what is marked, if that can be done soon."""
        with self._lock:
            self._closing.set()
            self._signal.put(None)
            thread = self._thread
        if thread is not None:
            thread.join(FLUSH_TIMEOUT)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="tenure-notifier", daemon=True)
        # None can be started while the interpreter ends. The jobs are stored, so that is no error.
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while (queues := self._next_queues()) is not None:
            with suppress(TenureError):
                self._send(None if None in queues else frozenset(each for each in queues if each is not None))
            self._closing.wait(NOTIFY_INTERVAL)

    def _next_queues(self) -> set[str | None] | None:
        """Wait for marks, and return them; None if the thread is over."""
        if not self._closing.is_set():
            with suppress(Empty):
                self._signal.get(timeout=IDLE_THREAD_TTL)
        with self._lock:
            if not self._is_pending:
                self._thread = None
                return None
            queues, self._pending_queues, self._is_pending = self._pending_queues, set(), False
            return queues
