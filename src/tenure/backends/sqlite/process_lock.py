"""One writer at a time, among all processes that use a store, and each about as often as the others.

SQLite has one writer anyway; two things are added. Nobody else writes or checkpoints until the commit is done, which
keeps clear of SQLite's WAL-reset bug. And the waiting are served about equally: they look again after short uneven
pauses that hardly grow, so that nobody falls behind. (SQLite's own pauses grow to a tenth of a second, and one of four
writers has most of the turns.)

The lock is on a file beside the database; the system drops it when a process dies.
"""

import os
import random
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

SHORTEST_PAUSE, LONGEST_PAUSE, PAUSE_GROWTH = 0.000_2, 0.002, 1.1


class ProcessLock:
    """Not for two threads at once: whoever calls it holds a lock of threads."""

    def __init__(self, path: Path) -> None:
        self.path = Path(f"{path}-tenure-lock")
        self._database = path
        self._file: int | None = None
        self._is_created_here = False

    def acquire(self, ends_at: float) -> bool:
        """Wait for it until a moment of the monotonic clock; tell whether it is held."""
        if sys.platform == "win32":
            return True  # no flock on Windows: rely on SQLite's own locks
        pause = SHORTEST_PAUSE
        while True:
            if self._file is None:
                self._file = self._open()
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= ends_at:
                    return False
                time.sleep(pause * random.uniform(0.2, 1.0))
                pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)
                continue
            if self._is_current(self._file):
                return True
            # Somebody deleted the file, and others lock a new one.
            self.close()

    def release(self) -> None:
        """Let the next one in; nothing happens if it is not held."""
        if self._file is not None and sys.platform != "win32":
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def remove(self) -> None:
        """Remove the file if it was made for nothing; whoever calls it holds the lock."""
        if self._is_created_here:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file, and with that let go."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        # To read is enough to lock it, and lets other users share a file that this one made.
        try:
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._is_created_here = True
            file = os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._copy_permissions(file)
            return file

    def _copy_permissions(self, file: int) -> None:
        """Let everybody have the lock who has the database: root may have made it, for a service that is not."""
        with suppress(OSError):
            database = self._database.stat()
            os.fchmod(file, stat.S_IMODE(database.st_mode))
            os.fchown(file, database.st_uid, database.st_gid)

    def _is_current(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path))  # noqa: PTH116
        except FileNotFoundError:
            return False
