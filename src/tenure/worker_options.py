"""What a worker is told."""

import os
import platform
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from tenure.core import checks
from tenure.core.checks import Seconds
from tenure.core.filters import Names
from tenure.core.operations import lease_of
from tenure.errors import ConfigurationError, UnknownTask

MOST_CONCURRENT = 1_000
LONGEST_GRACE = 86_400.0


class WorkerOptions(TypedDict, total=False):
    """What can be said about a worker: see `Jobs.work`."""

    queues: Names | None
    types: Names | None
    concurrency: int
    lease: Seconds
    grace: Seconds
    drain: bool
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The same, checked."""

    queues: tuple[str, ...] | None
    types: tuple[str, ...]
    concurrency: int
    lease: float
    grace: float
    drain: bool
    name: str


def settings_of(options: WorkerOptions, tasks: Mapping[str, Any]) -> Settings:
    """Return what the options mean for a worker of these tasks, or raise."""
    checks.refuse_unknown("work", options, WorkerOptions.__annotations__)
    if not tasks:
        raise ConfigurationError("there is nothing to run: make a task of a function with @jobs.task, then start")
    named = options.get("types")
    types = tuple(tasks) if named is None else checks.names("types", named)
    for type in types:
        if type not in tasks:
            raise UnknownTask(
                f"no task is registered under the type {type!r}{checks.nearest(type, tasks)}; import its module first"
            )
    return Settings(
        queues=checks.optional(checks.names, "queues", options.get("queues")),
        types=types,
        concurrency=checks.whole("concurrency", options.get("concurrency", 10), 1, MOST_CONCURRENT),
        lease=lease_of(options.get("lease", 60.0)),
        grace=checks.seconds("grace", options.get("grace", 30.0), 0.0, LONGEST_GRACE),
        drain=checks.truth("drain", options.get("drain", False)),
        name=_unique(checks.optional(checks.name, "name", options.get("name"))),
    )


def _unique(name: str | None) -> str:
    """Return a name that no other worker has or had: a process that is started again may have the same number."""
    host = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"
    return checks.name("name", host if name is None else f"{name}@{host}")
