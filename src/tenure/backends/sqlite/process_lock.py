"""A fair lock between the processes that write to a store.

SQLite allows only one writer anyway; this lock adds two things. No other process writes or checkpoints until the commit
is done, which avoids SQLite's WAL-reset bug. And waiting processes get the lock about equally often: they retry after
short pauses with jitter that hardly grow, so that no process falls behind. (SQLite's own pauses grow to 0.1 s, and then
one of four writers gets most of the turns.)

The lock is an `flock` on a file beside the database; the system releases the lock when a process dies.
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
    """A lock between processes. The caller must hold a thread lock: two threads must not use it at once."""

    def __init__(self, path: Path) -> None:
        self.path = Path(f"{path}-tenure-lock")
        self._database = path
        self._file: int | None = None
        self._has_created_file = False

    def acquire(self, ends_at: float) -> bool:
        """Acquire the lock. Return False if it is not free by `ends_at`, on the monotonic clock."""
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
            # The file was deleted, and other processes lock a new one.
            self.close()

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._file is not None and sys.platform != "win32":
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def remove(self) -> None:
        """Delete the lock file if this object created it. The caller must hold the lock."""
        if self._has_created_file:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the lock file, which releases the lock."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        # Read access is enough for a lock, and allows other users to share the file.
        try:
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._has_created_file = True
            file = os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._copy_permissions(file)
            return file

    def _copy_permissions(self, file: int) -> None:
        """Copy mode and owner of the database: root may create the lock file for a service that is not root."""
        with suppress(OSError):
            database = self._database.stat()
            os.fchmod(file, stat.S_IMODE(database.st_mode))
            os.fchown(file, database.st_uid, database.st_gid)

    def _is_current(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path))  # noqa: PTH116
        except FileNotFoundError:
            return False
