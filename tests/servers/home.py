"""The folder of a test run, with the files of all servers.

The process that creates the folder locks a file in it until the run ends. A folder with a free lock was left by a
killed run; the next run removes the folder.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from tempfile import gettempdir, mkdtemp

NAME = "tenure-servers-"
UNFINISHED = "tenure-new-"

MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it get random names
ENOUGH = 4 * 2**30


@contextmanager
def made_home(place: Path | None = None) -> Iterator[Path]:
    """Yield a new folder, in the fastest file system by default; remove the folder on exit."""
    place = place or quickest_place()
    clear_away_what_was_left(place)
    made = Path(mkdtemp(prefix=UNFINISHED, dir=place))
    # The account of a server needs access to its subfolder.
    made.chmod(0o711)
    with (made / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        # Rename only after locking: a folder with the final name always has a lock.
        home = made.rename(made.with_name(made.name.replace(UNFINISHED, NAME)))
        try:
            yield home
        finally:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def temporary_files_in(home: Path) -> Iterator[None]:
    """Put the temporary files of the process and its children into the home.

    pytest removes temporary folders of other runs of the same user, so concurrent runs need separate folders.
    """
    folder = home / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    variable = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable


def quickest_place() -> Path:
    """Return the fastest place for data directories: memory if enough is free, else the temporary folder."""
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH
    # Programs may be copied there and must be executable.
    return MEMORY if has_room and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC else Path(gettempdir())


def clear_away_what_was_left(place: Path) -> None:
    for home in place.glob(f"{NAME}*"):
        with suppress(OSError):
            if home.stat().st_uid == os.geteuid():
                clear_away_unless_locked(home)


def clear_away_unless_locked(home: Path) -> None:
    # "a" creates the lock file if a killed cleanup has already removed it.
    with (home / "lock").open("a") as lock:
        flock(lock, LOCK_EX | LOCK_NB)
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Lock the folder against other processes; the system releases the lock of a killed process."""
    with (folder / "turn").open("w") as turn:
        flock(turn, LOCK_EX)
        yield
