"""The folder of one run of the tests: all that its servers have on disk.

Whoever made it holds a lock in it as long as the run lasts. So a folder whose lock is free was left by a run that was
killed, and the next one removes it.
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
    """Give a folder, in the quickest place unless one is named; on leaving it is gone, with all that is in it."""
    place = place or quickest_place()
    clear_away_what_was_left(place)
    made = Path(mkdtemp(prefix=UNFINISHED, dir=place))
    # The account of a server has to reach its own folder in it.
    made.chmod(0o711)
    with (made / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        # Only now does it have the name by which others find it: nobody ever sees it without its lock.
        home = made.rename(made.with_name(made.name.replace(UNFINISHED, NAME)))
        try:
            yield home
        finally:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def temporary_files_in(home: Path) -> Iterator[None]:
    """Have this process and all that it starts make their temporary files here.

    pytest removes the folders of other runs of the same user: runs side by side need a place each.
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
    """Return where a data directory of a thousand files costs least: in memory, if there is plenty."""
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH
    # Programs may have to be copied there.
    return MEMORY if has_room and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC else Path(gettempdir())


def clear_away_what_was_left(place: Path) -> None:
    for home in place.glob(f"{NAME}*"):
        with suppress(OSError):
            if home.stat().st_uid == os.geteuid():
                clear_away_unless_locked(home)


def clear_away_unless_locked(home: Path) -> None:
    # It has no lock if somebody did not get to the end of this.
    with (home / "lock").open("a") as lock:
        flock(lock, LOCK_EX | LOCK_NB)
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process after the other in here; one that is killed lets go."""
    with (folder / "turn").open("w") as turn:
        flock(turn, LOCK_EX)
        yield
