"""The turn to write: one thread of one process at a time.

An exception can come between any two steps of the main thread, such as Ctrl-C. So what is taken is known to be taken,
and what must be done at the end is begun again if an exception came before it had begun. If one comes just when a block
is left, only garbage may hold the block; that is collected before anyone is told that the file is locked.
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
        """Write alone; give the moment until which others that do not know of turns may be waited for."""
        ends_at = time.monotonic() + self._timeout
        is_held: list[bool] = []
        try:
            # In one step, between whose parts no signal can be raised.
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
