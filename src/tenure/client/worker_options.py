"""The options of a worker."""

import os
import platform
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from tenure.core import checks
from tenure.core.checks import Seconds
from tenure.core.filters import NameOrNames
from tenure.core.operations import check_lease
from tenure.errors import ConfigurationError, UnknownTask

MOST_CONCURRENT = 1_000
LONGEST_GRACE = 86_400.0


class WorkerOptions(TypedDict, total=False):
    """The options of a worker: see `Jobs.work`. `queues`, `types` and `lease` apply to jobs, not to tables."""

    queues: NameOrNames | None
    types: NameOrNames | None
    concurrency: int
    lease: Seconds
    grace: Seconds
    drain: bool
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The options of a worker, validated. `types` of None are all registered tasks."""

    queues: tuple[str, ...] | None
    types: tuple[str, ...] | None
    concurrency: int
    lease: float
    grace: float
    drain: bool
    name: str


def settings_of(options: WorkerOptions, tasks: Mapping[str, Any] | None) -> WorkerSettings:
    """Validate the options of a worker with these tasks; `tasks` is None for a worker of tables only."""
    checks.reject_unknown("work", options, WorkerOptions.__annotations__)
    types = checks.optional(checks.names, "types", options.get("types"))
    if tasks is None:
        _reject_job_options(options)
    elif not tasks:
        raise ConfigurationError(
            "there are no tasks to run: register a function with @jobs.task before starting a worker"
        )
    for type in types or ():
        if type not in (tasks or {}):
            raise UnknownTask(
                f"no task is registered for type {type!r}: import the module that defines the task first"
                f"{checks.did_you_mean(type, tasks or {})}"
            )
    return WorkerSettings(
        queues=checks.optional(checks.names, "queues", options.get("queues")),
        types=types,
        concurrency=checks.integer("concurrency", options.get("concurrency", 10), 1, MOST_CONCURRENT),
        lease=check_lease(options.get("lease", 60.0)),
        grace=checks.seconds("grace", options.get("grace", 30.0), 0.0, LONGEST_GRACE),
        drain=checks.boolean("drain", options.get("drain", False)),
        name=_unique_name(checks.optional(checks.name, "name", options.get("name"))),
    )


def _reject_job_options(options: WorkerOptions) -> None:
    for option in ("queues", "types"):
        if options.get(option) is not None:
            raise ConfigurationError(f"{option} applies to jobs, and this worker has only tables: remove {option}=")


def _unique_name(name: str | None) -> str:
    """Return a name that no other worker has or had. The random part is needed because process ids are reused."""
    host = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"
    return checks.name("name", host if name is None else f"{name}@{host}")
