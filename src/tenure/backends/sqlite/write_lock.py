"""The write lock: one thread of one process at a time.

An exception such as Ctrl-C can occur between any two steps of the main thread. So acquiring the lock and recording that
it is held are one step, and the release is repeated if an exception prevented it. If an exception occurs just as a
block ends, the block may be kept alive only by garbage; this garbage is collected before the lock is reported as busy.
"""

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.backends.sqlite import errors
from tenure.backends.sqlite.process_lock import ProcessLock


class WriteLock:
    def __init__(self, path: Path, timeout: float) -> None:
        self.thread_lock = threading.Lock()
        self.process_lock = ProcessLock(path)
        self._path = path
        self._timeout = timeout

    @contextmanager
    def hold(self) -> Iterator[float]:
        """Hold the lock; yield the deadline for waiting on writers that do not take the lock."""
        ends_at = time.monotonic() + self._timeout
        is_held: list[bool] = []
        try:
            # A single C call: no signal handler can run between acquiring and recording.
            is_held.extend(map(self.thread_lock.acquire, [True], [self._timeout]))
            if not is_held[0]:
                is_held.clear()
                gc.collect()
                is_held.extend(map(self.thread_lock.acquire, [False]))
            if not is_held[0]:
                raise errors.locked_error(self._path, self._timeout)
            self._acquire_process_lock(ends_at)
            yield ends_at
        finally:
            try:
                if is_held and is_held[0]:
                    self.process_lock.release()
            except BaseException:
                self.process_lock.release()
                raise
            finally:
                if is_held and is_held[0]:
                    self.thread_lock.release()

    def _acquire_process_lock(self, ends_at: float) -> None:
        try:
            is_held = self.process_lock.acquire(ends_at)
        except OSError as exc:
            raise errors.translate_error(self.process_lock.path, exc, self._timeout) from exc
        if not is_held:
            raise errors.locked_error(self._path, self._timeout)
