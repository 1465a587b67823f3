"""Measure the memory of a process."""

import os
import subprocess
from pathlib import Path

PS_TIMEOUT = 5.0
"""Seconds to wait for `ps`."""


def resident_bytes(pid: int) -> int | None:
    """Return the resident memory of a process in bytes; None if it is not known, for example after its exit."""
    try:
        statm = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    except OSError:
        return _resident_bytes_from_ps(pid)
    return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _resident_bytes_from_ps(pid: int) -> int | None:
    try:
        rss = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)],  # noqa: S607 - found on the PATH
            capture_output=True,
            text=True,
            check=False,
            timeout=PS_TIMEOUT,
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None
    return int(rss) * 1024 if rss.isdecimal() else None
