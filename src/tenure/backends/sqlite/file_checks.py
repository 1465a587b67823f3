"""Check the path of a SQLite file before it is opened.

This module never opens the database file: closing a file drops every lock that the process holds on it, SQLite's
included.
"""

import os
import re
from pathlib import Path

from tenure.errors import ConfigurationError, StoreUnavailable

MOUNTINFO = Path("/proc/self/mountinfo")

NETWORK_FILE_SYSTEMS = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|9p|afs|ncpfs|ceph|glusterfs|lustre|gpfs|ocfs2|gfs2|davfs2?|beegfs"
    r"|fuse\.(sshfs|glusterfs|ceph|s3fs|gcsfuse|rclone|goofys|davfs2?|smbnetfs|curlftpfs|nfs)"
)
"""File systems whose locks or shared memory do not work between machines."""

FileIdentity = tuple[int, int]


def check_path(path: Path) -> None:
    """Raise if the path cannot hold a store."""
    try:
        _check_path(path)
    except OSError as exc:
        raise StoreUnavailable(f"cannot access {str(path)!r}: {exc.strerror}") from exc


def _check_path(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StoreUnavailable(f"the folder of {str(path)!r} does not exist; create it, or name another file")
    if path.is_dir():
        raise StoreUnavailable(f"{str(path)!r} is a folder; name a file in it")
    if (kind := file_system_type(path)) is not None and NETWORK_FILE_SYSTEMS.fullmatch(kind):
        raise ConfigurationError(
            f"{str(path)!r} is on a network file system ({kind}), where SQLite's locks do not work; "
            "move it to a local disk, or use PostgreSQL or Redis"
        )
    for each in (path, folder) if path.exists() else (folder,):
        if not os.access(each, os.W_OK):
            raise StoreUnavailable(f"{str(each)!r} is read-only for this process; make it writable")


def file_identity(path: Path) -> FileIdentity | None:
    """Return device and inode, which distinguish files with the same path; None if there is no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise StoreUnavailable(f"cannot access {str(path)!r}: {exc.strerror}") from exc
    return found.st_dev, found.st_ino


def is_missing_or_empty(path: Path) -> bool:
    """Return whether the file is missing or empty."""
    return not path.exists() or path.stat().st_size == 0


def file_system_type(path: Path) -> str | None:
    """Return the type of the file system, or None if the system does not report it."""
    try:
        mounts = MOUNTINFO.read_text(errors="surrogateescape")
    except OSError:
        return None
    return mount_type(os.path.realpath(path), mounts)


def mount_type(path: str, mounts: str) -> str | None:
    """Return the file system type of the innermost mount above a path, from the lines of mountinfo."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        mounted, separator, source = line.partition(" - ")
        if not separator:
            continue
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), mounted.split(" ")[4])
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        # A later mount on the same point hides the earlier one.
        if is_above and (found is None or len(point) >= found[0]):
            found = len(point), source.split(" ")[0]
    return None if found is None else found[1]
