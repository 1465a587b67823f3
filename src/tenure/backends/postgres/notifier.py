"""Notify waiting processes that jobs may be claimable.

A background thread sends NOTIFY after the commit that made the jobs claimable, in a separate transaction: an enqueueing
thread does not wait for NOTIFY, nor for its cluster-wide lock. A notification may be lost, since waiters also poll.
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
"""Minimum seconds between two notifications; queues added meanwhile share the next notification."""
IDLE_THREAD_TTL = 10.0
"""Seconds without work after which the thread exits."""
FLUSH_TIMEOUT = 2.0
"""Seconds that `close` waits for the last notification."""

LONGEST_CHANNEL = 63
LONGEST_PAYLOAD = 1000
"""Maximum payload in bytes; the server accepts up to 8000."""


def channel_of(schema: str) -> str:
    """Return the channel of a store, unique within the database."""
    channel = f"tenure_{schema}"
    if len(channel) <= LONGEST_CHANNEL:
        return channel
    return f"tenure_{schema[:39]}_{sha256(schema.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that these queues may have jobs, None for any queue. `sender` identifies the `JobWaiter`."""

    sender: str
    queues: frozenset[str] | None

    def payload(self) -> str:
        text = json.dumps([self.sender, None if self.queues is None else sorted(self.queues)], ensure_ascii=False)
        return text if len(text.encode()) <= LONGEST_PAYLOAD else Notification(self.sender, None).payload()


def parse_notification(payload: str) -> Notification:
    """Parse a payload. An unreadable payload counts as a notification for any queue."""
    with suppress(ValueError, TypeError, RecursionError):
        sender, queues = json.loads(payload)
        return Notification(str(sender), None if queues is None else frozenset(queues))
    return Notification("", None)


class Notifier:
    """Sends notifications from a background thread, which exits when idle."""

    def __init__(self, send: Callable[[frozenset[str] | None], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        # Not a `threading.Event`: an interrupt inside `set()` would leave its lock held.
        self._signal: SimpleQueue[None] = SimpleQueue()
        self._is_pending = False
        self._closing = threading.Event()
        self._pending_queues: set[str | None] = set()
        self._thread: threading.Thread | None = None

    def notify(self, queues: Collection[str] | None) -> None:
        """Schedule a notification for these queues, None for any, and return at once. An empty list sends a ping."""
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
        """Send the pending notification; wait at most `FLUSH_TIMEOUT` seconds."""
        with self._lock:
            self._closing.set()
            self._signal.put(None)
            thread = self._thread
        if thread is not None:
            thread.join(FLUSH_TIMEOUT)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="tenure-notifier", daemon=True)
        # No thread can be started during interpreter shutdown. The jobs are stored, so a lost notification is harmless.
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while (queues := self._next_queues()) is not None:
            with suppress(TenureError):
                self._send(None if None in queues else frozenset(each for each in queues if each is not None))
            self._closing.wait(NOTIFY_INTERVAL)

    def _next_queues(self) -> set[str | None] | None:
        """Wait for pending queues and return them; None if the thread should exit."""
        if not self._closing.is_set():
            with suppress(Empty):
                self._signal.get(timeout=IDLE_THREAD_TTL)
        with self._lock:
            if not self._is_pending:
                self._thread = None
                return None
            queues, self._pending_queues, self._is_pending = self._pending_queues, set(), False
            return queues
