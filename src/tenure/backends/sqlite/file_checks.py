"""Where the file is to be: what the system says of it before it is opened.

The database file itself is never opened here: to close a file drops every lock that this process has on it, those of
SQLite included.
"""

import os
import re
from pathlib import Path

from tenure.errors import ConfigurationError, StoreUnavailable

MOUNTS = Path("/proc/self/mountinfo")

NETWORK = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|9p|afs|ncpfs|ceph|glusterfs|lustre|gpfs|ocfs2|gfs2|davfs2?|beegfs"
    r"|fuse\.(sshfs|glusterfs|ceph|s3fs|gcsfuse|rclone|goofys|davfs2?|smbnetfs|curlftpfs|nfs)"
)
"""File systems whose locks, or whose shared memory, do not reach other machines as they do other processes."""

Identity = tuple[int, int]


def check(path: Path) -> None:
    """Raise if a store cannot be here."""
    try:
        _check(path)
    except OSError as exc:
        raise StoreUnavailable(f"{str(path)!r} cannot be reached: {exc.strerror}") from exc


def _check(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StoreUnavailable(f"the folder of {str(path)!r} does not exist; make it first, or name another file")
    if path.is_dir():
        raise StoreUnavailable(f"{str(path)!r} is a folder; name a file in it")
    if (kind := file_system(path)) is not None and NETWORK.fullmatch(kind):
        raise ConfigurationError(
            f"{str(path)!r} is on a network file system ({kind}), where SQLite's locks do not hold; "
            "put it on a local disk, or use a store with a server"
        )
    for each in (path, folder) if path.exists() else (folder,):
        if not os.access(each, os.W_OK):
            raise StoreUnavailable(f"{str(each)!r} is read-only for this process; a store has to be written")


def identity(path: Path) -> Identity | None:
    """Return what tells this file from another of the same name, or None if there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise StoreUnavailable(f"{str(path)!r} cannot be reached: {exc.strerror}") from exc
    return found.st_dev, found.st_ino


def is_new(path: Path) -> bool:
    """Tell whether there is no database here yet."""
    return not path.exists() or path.stat().st_size == 0


def file_system(path: Path) -> str | None:
    """Return the kind of file system, where the system tells."""
    try:
        mounts = MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return None
    return kind_of_mount(os.path.realpath(path), mounts)


def kind_of_mount(path: str, mounts: str) -> str | None:
    """Return the kind of the innermost mount that a path is under, by the lines of mountinfo."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        mounted, separator, source = line.partition(" - ")
        if not separator:
            continue
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), mounted.split(" ")[4])
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point, the later hides the earlier.
        if is_above and (found is None or len(point) >= found[0]):
            found = len(point), source.split(" ")[0]
    return None if found is None else found[1]
