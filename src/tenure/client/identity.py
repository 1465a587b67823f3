"""Names for what is new: jobs, requests, this process."""

import os
import platform
import secrets
import time

from tenure.core.ids import RANDOM_BYTES, uuid7


def new_id() -> str:
    """Return an id for a job: later ones sort after earlier ones."""
    return uuid7(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))


def new_token() -> str:
    """Return a token for a request that claims."""
    return secrets.token_hex(16)


def default_worker_name() -> str:
    """Return the name under which this process claims, if it gives no other."""
    return f"{platform.node()}:{os.getpid()}"
