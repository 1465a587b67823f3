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
    """What can be said about a worker: see `Jobs.work`. `queues`, `types` and `lease` are about jobs, not tables."""

    queues: Names | None
    types: Names | None
    concurrency: int
    lease: Seconds
    grace: Seconds
    drain: bool
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The same, checked. `types` of None are all that there are tasks for."""

    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    concurrency: int
    lease: float
    grace: float
    drain: bool
    name: str


def settings_of(options: WorkerOptions, tasks: Mapping[str, Any] | None) -> Settings:
    """Return what the options mean for a worker of these tasks, or raise; None if it is for tables alone."""
    checks.refuse_unknown("work", options, WorkerOptions.__annotations__)
    types = checks.optional(checks.names, "types", options.get("types"))
    if tasks is None:
        _refuse_what_is_for_jobs(options)
    elif not tasks:
        raise ConfigurationError("there is nothing to run: make a task of a function with @jobs.task, then start")
    for type in types or ():
        if type not in (tasks or {}):
            raise UnknownTask(
                f"no task is registered under the type {type!r}{checks.nearest(type, tasks or {})}; "
                "import its module first"
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


def _refuse_what_is_for_jobs(options: WorkerOptions) -> None:
    for option in ("queues", "types"):
        if options.get(option) is not None:
            raise ConfigurationError(f"{option} choose jobs, and there are only tables here; leave {option} out")


def _unique(name: str | None) -> str:
    """Return a name that no other worker has or had: a process that is started again may have the same number."""
    host = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"
    return checks.name("name", host if name is None else f"{name}@{host}")
