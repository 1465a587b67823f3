"""Wake a thread that waits for several conditions."""

from queue import Empty, SimpleQueue


class Wakeup:
    """An event for one waiting thread, which then checks its conditions itself.

    `set` is safe in any thread and in a signal handler: it takes no lock that the interrupted code may hold.
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
        """Return whether `set` was called since the last wait, or is called within `timeout` seconds."""
        try:
            self._queue.get(timeout=timeout)
        except Empty:
            # A caller of `set` may have been interrupted before its put. Reset, so that the next `set` works.
            self._is_set = False
            return False
        # A `set` before this line adds nothing to the queue. Its change is visible to the checks that follow this wait.
        self._is_set = False
        return True
