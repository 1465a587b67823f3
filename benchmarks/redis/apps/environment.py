"""Settings from the environment: the server, and the file in which jobs record their run."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benchmarks.redis.notes import Notes

URL, NOTES = "BENCH_REDIS_URL", "BENCH_NOTES"


def url() -> str:
    return os.environ[URL]


@cache
def noting() -> Callable[[int], None]:
    """Return the function that jobs call with their numbers."""
    return Notes(Path(os.environ[NOTES])).note
