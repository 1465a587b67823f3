"""Generate job ids, claim tokens and the default worker name."""

import os
import platform
import secrets
import time

from tenure.core.ids import RANDOM_BYTES, uuid7


def new_id() -> str:
    """Return a new job id. Ids sort by time."""
    return uuid7(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))


def new_token() -> str:
    """Return a random token for a claim request."""
    return secrets.token_hex(16)


def default_worker_name() -> str:
    """Return the default worker name of this process."""
    return f"{platform.node()}:{os.getpid()}"
