"""How much memory a process has."""

import os
import subprocess
from pathlib import Path

PATIENCE = 5.0
"""Seconds that the system has to tell."""


def resident_bytes(pid: int) -> int | None:
    """Return the bytes that a process has in memory; None if that cannot be told, as when it is gone."""
    try:
        told = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    except OSError:
        return _asked_for(pid)
    return int(told.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _asked_for(pid: int) -> int | None:
    try:
        told = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None
    return int(told) * 1024 if told.isdecimal() else None
