"""What wakes a thread that waits for more than one thing."""

from queue import Empty, SimpleQueue


class Wakeup:
    """Wakes the one thread that waits for it, which then looks by itself at what has changed.

    It may be rung from anywhere, even from a signal handler: it takes no lock that the interrupted code may hold.
    """

    __slots__ = ("_is_set", "_queue")

    def __init__(self) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._queue.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether it was rung, since the last time or within so many seconds."""
        try:
            self._queue.get(timeout=timeout)
        except Empty:
            # Should somebody have been interrupted before it rang, the next can.
            self._is_set = False
            return False
        # Whoever rings from here on without being heard has changed something that is looked at after this.
        self._is_set = False
        return True
