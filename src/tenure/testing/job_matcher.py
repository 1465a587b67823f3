"""Match jobs by task, arguments and options, for the assertions of a test queue."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenure.client.aio import AsyncCall, AsyncTask
from tenure.core import checks
from tenure.core.job import Job, NewJob
from tenure.core.payload import decode, encode_payload
from tenure.errors import ConfigurationError, TenureError
from tenure.tasks.task import Call, Task

AnyTask = Task[..., Any, Any] | Call[..., Any, Any] | AsyncTask[..., Any, Any] | AsyncCall[..., Any, Any] | str
"""A task, a task with options, the async facade of either, or a type."""

MOST_LISTED = 5

OPTIONS_NOT_STORED = {"on_conflict"}
IGNORED_IF_NONE = {"delay", "id", "run_at"}


class JobMatcher:
    """Matches a job. An argument matches if the task receives an equal value, or if its JSON is the same."""

    def __init__(self, tasks: Mapping[str, Task[..., Any, Any]], target: AnyTask, arguments: Mapping[str, Any]) -> None:
        task, options = _task_and_options(tasks, target)
        self.type = task if isinstance(task, str) else task.type
        self._arguments = arguments
        self._options = _normalised_options(self.type, options)
        self._read: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
        self._write: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self._defaults: dict[str, Any] = {}
        if isinstance(task, Task):
            _reject_unknown_arguments(task, arguments)
            self._read = task.arguments.decode_call
            self._write = lambda given: task.arguments.encode_call((), given)
            parameters = inspect.signature(task.function).parameters.values()
            self._defaults = {each.name: each.default for each in parameters if each.default is not each.empty}

    def __str__(self) -> str:
        return format_call(self.type, self._arguments) + _format_options(self._options)

    def matches(self, job: Job) -> bool:
        return job.type == self.type and not self._count_differences(job)

    def describe_nearest(self, jobs: Sequence[Job]) -> str:
        """Describe the jobs of this type, best match first; without any, the types that were enqueued."""
        same = sorted((job for job in jobs if job.type == self.type), key=self._count_differences)
        if same:
            return f"found:{_format_lines([_format_job(job, self._differing_options(job)) for job in same])}"
        types = ", ".join(sorted({repr(job.type) for job in jobs}))
        return f"only jobs of type {types} were enqueued" if types else "no job was enqueued"

    def _count_differences(self, job: Job) -> int:
        """Return how many arguments and options differ."""
        arguments = sum(not self._has_argument(job, name, value) for name, value in self._arguments.items())
        return arguments + len(self._differing_options(job))

    def _differing_options(self, job: Job) -> dict[str, Any]:
        """Return the values of the job for the options that differ."""
        options = _job_options(job)
        return {name: options[name] for name, value in self._options.items() if options[name] != value}

    def _has_argument(self, job: Job, name: str, value: Any) -> bool:
        if name not in job.payload:
            return name in self._defaults and bool(self._defaults[name] == value)
        try:
            given = self._read(job.payload)
            if given[name] == value:
                return True
            written = encode_payload({name: self._write({**given, name: value})[name]})
        except TenureError:
            # The payload no longer fits the task, or the expected value could not have been enqueued.
            return False
        return bool(decode(written)[name] == job.payload[name])


def format_call(type: str, arguments: Mapping[str, Any]) -> str:
    """Format a job as a call of its task."""
    return f"{type}({', '.join(f'{name}={checks.short_repr(value)}' for name, value in arguments.items())})"


def format_jobs(jobs: Sequence[Job]) -> str:
    """Format the first few jobs, one a line."""
    return _format_lines([_format_job(job) for job in jobs])


def _format_lines(items: Sequence[str]) -> str:
    rest = len(items) - MOST_LISTED
    lines = [*items[:MOST_LISTED], f"and {rest} more"] if rest > 0 else items
    return "".join(f"\n  {line}" for line in lines)


def _format_job(job: Job, options: Mapping[str, Any] | None = None) -> str:
    return format_call(job.type, job.payload) + _format_options(options or {})


def _format_options(options: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name}={checks.short_repr(value)}" for name, value in options.items())
    return f" with {shown}" if shown else ""


def _task_and_options(
    tasks: Mapping[str, Task[..., Any, Any]], target: AnyTask
) -> tuple[Task[..., Any, Any] | str, Mapping[str, Any]]:
    """Return the task and its options; for a type without a registered task, the type."""
    if isinstance(target, AsyncTask | AsyncCall):
        target = target.sync
    match target:
        case Task():
            return target, {}
        case Call(task=task, options=options):
            return task, options
        case str():
            return tasks.get(target, target), {}
        case _:
            raise ConfigurationError(f"pass a task or its type, not {checks.short_repr(target)}")


def _normalised_options(type: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the form that a stored job has."""
    record = NewJob(type, **options).record("wanted")
    return {
        name: getattr(record, name)
        for name, value in options.items()
        if name not in OPTIONS_NOT_STORED and not (value is None and name in IGNORED_IF_NONE)
    }


def _job_options(job: Job) -> dict[str, Any]:
    return {
        "queue": job.queue,
        "priority": job.priority,
        "run_at": job.run_at,
        "delay": (job.run_at - job.created_at).total_seconds(),
        "key": job.key,
        "max_attempts": job.max_attempts,
        "max_crashes": job.max_crashes,
        "timeout": job.timeout,
        "meta": job.meta,
        "id": job.id,
    }


def _reject_unknown_arguments(task: Task[..., Any, Any], arguments: Mapping[str, Any]) -> None:
    known = inspect.signature(task.function).parameters
    for name in arguments:
        if name not in known:
            raise ConfigurationError(f"{task.arguments} has no argument {name!r}{checks.did_you_mean(name, known)}")
