"""What an application is told by whoever starts it: the server, and where its jobs note that they run."""

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
    """Return what a job calls with its number."""
    return Notes(Path(os.environ[NOTES])).note
