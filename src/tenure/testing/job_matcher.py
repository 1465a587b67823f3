"""The jobs that a test asks for: of a type, with some of their arguments, and perhaps with options."""

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
"""What names a task: itself, with options, the twin of either, or its type."""

MOST_LISTED = 5

NOT_ON_THE_JOB = {"on_conflict"}
UNDECIDED_IF_NONE = {"delay", "id", "run_at"}


class Wanted:
    """An argument is as wanted if the task will get one that is equal, or if it is written as the same JSON."""

    def __init__(self, tasks: Mapping[str, Task[..., Any, Any]], named: AnyTask, arguments: Mapping[str, Any]) -> None:
        task, options = _parts(tasks, named)
        self.type = task if isinstance(task, str) else task.type
        self._arguments = arguments
        self._options = _options(self.type, options)
        self._read: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
        self._write: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self._defaults: dict[str, Any] = {}
        if isinstance(task, Task):
            _refuse_unknown_arguments(task, arguments)
            self._read = task.arguments.named
            self._write = lambda given: task.arguments.payload((), given)
            parameters = inspect.signature(task.function).parameters.values()
            self._defaults = {each.name: each.default for each in parameters if each.default is not each.empty}

    def __str__(self) -> str:
        return called(self.type, self._arguments) + _with(self._options)

    def is_met_by(self, job: Job) -> bool:
        return job.type == self.type and not self._misses(job)

    def nearest(self, jobs: Sequence[Job]) -> str:
        """Return the jobs of this type, those first that miss least; if there are none, the types that there are."""
        same = sorted((job for job in jobs if job.type == self.type), key=self._misses)
        if same:
            return f"this was:{_lines([_shown(job, self._other_options(job)) for job in same])}"
        types = ", ".join(sorted({repr(job.type) for job in jobs}))
        return f"only jobs of type {types} were" if types else "nothing was"

    def _misses(self, job: Job) -> int:
        """Return how many of the arguments and options are otherwise."""
        arguments = sum(not self._has(job, name, value) for name, value in self._arguments.items())
        return arguments + len(self._other_options(job))

    def _other_options(self, job: Job) -> dict[str, Any]:
        """Return what the job has in place of the options that are wanted."""
        options = _options_of(job)
        return {name: options[name] for name, value in self._options.items() if options[name] != value}

    def _has(self, job: Job, name: str, value: Any) -> bool:
        if name not in job.payload:
            return name in self._defaults and bool(self._defaults[name] == value)
        try:
            given = self._read(job.payload)
            if given[name] == value:
                return True
            written = encode_payload({name: self._write({**given, name: value})[name]})
        except TenureError:
            # A payload that does not fit the task any more, or a value that could never have been enqueued.
            return False
        return bool(decode(written)[name] == job.payload[name])


def called(type: str, arguments: Mapping[str, Any]) -> str:
    """Return a job as the call that it stands for."""
    return f"{type}({', '.join(f'{name}={checks.shown(value)}' for name, value in arguments.items())})"


def listed(jobs: Sequence[Job]) -> str:
    """Return the jobs as lines, if they are not too many."""
    return _lines([_shown(job) for job in jobs])


def _lines(shown: Sequence[str]) -> str:
    rest = len(shown) - MOST_LISTED
    lines = [*shown[:MOST_LISTED], f"and {rest} more"] if rest > 0 else shown
    return "".join(f"\n  {line}" for line in lines)


def _shown(job: Job, options: Mapping[str, Any] | None = None) -> str:
    return called(job.type, job.payload) + _with(options or {})


def _with(options: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name}={checks.shown(value)}" for name, value in options.items())
    return f" with {shown}" if shown else ""


def _parts(
    tasks: Mapping[str, Task[..., Any, Any]], named: AnyTask
) -> tuple[Task[..., Any, Any] | str, Mapping[str, Any]]:
    """Return the task, or the type of one that is not registered here, and the options."""
    if isinstance(named, AsyncTask | AsyncCall):
        named = named.sync
    match named:
        case Task():
            return named, {}
        case Call(task=task, options=options):
            return task, options
        case str():
            return tasks.get(named, named), {}
        case _:
            raise ConfigurationError(f"name a task, or its type, not {checks.shown(named)}")


def _options(type: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the form in which a job has them."""
    entry = NewJob(type, **given).entry("wanted")
    return {
        name: getattr(entry, name)
        for name, value in given.items()
        if name not in NOT_ON_THE_JOB and not (value is None and name in UNDECIDED_IF_NONE)
    }


def _options_of(job: Job) -> dict[str, Any]:
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


def _refuse_unknown_arguments(task: Task[..., Any, Any], arguments: Mapping[str, Any]) -> None:
    known = inspect.signature(task.function).parameters
    for name in arguments:
        if name not in known:
            raise ConfigurationError(f"{task.arguments} has no argument {name!r}{checks.nearest(name, known)}")
