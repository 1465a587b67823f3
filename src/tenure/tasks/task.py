"""A function that is registered for a type of job."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack

from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.checks import Seconds, reject_unknown_options
from tenure.core.job import Job, NewJob, OnConflict
from tenure.errors import ConfigurationError
from tenure.tasks.arguments import Arguments

if TYPE_CHECKING:
    from tenure.client.aio import AsyncCall, AsyncJobs, AsyncTask

P = ParamSpec("P")
C = TypeVar("C")
"""The return type of a call: a coroutine for an async function."""
R = TypeVar("R")
"""The result type."""


class Options(TypedDict, total=False):
    """The options of a job that is enqueued through a task."""

    queue: str
    priority: int
    run_at: datetime | None
    delay: Seconds | None
    key: str | None
    on_conflict: OnConflict
    max_attempts: int | None
    max_crashes: int
    timeout: Seconds | None
    meta: Mapping[str, str]
    id: str | None
    connection: object


class TaskClient(Protocol):
    """The part of `Jobs` that a task uses."""

    @property
    def aio(self) -> "AsyncJobs": ...

    def enqueue_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[str]: ...

    def get(self, id: str) -> Job | None: ...

    def wait_for(self, id: str, timeout: Seconds | None = None) -> Job: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """The options of a task that apply to all jobs of its type, however they were enqueued."""

    _: KW_ONLY
    timeout: float | None = None
    backoff: Backoff | None = None
    give_up_on: tuple[type[BaseException], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Call(Generic[P, C, R]):
    """A task with the options of the jobs to enqueue."""

    task: "Task[P, C, R]"
    options: Mapping[str, Any] = field(default_factory=dict)
    connection: object = None

    @property
    def aio(self) -> "AsyncCall[P, C, R]":
        """The async version."""
        from tenure.client.aio import AsyncCall

        return AsyncCall(self)

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a call with these arguments as a job, for `enqueue_many`."""
        return NewJob(self.task.type, self.task.arguments.encode_call(args, kwargs), **self.options)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Enqueue a call with these arguments, and return the id of the job."""
        return self.task.jobs.enqueue_many([self.job(*args, **kwargs)], connection=self.connection)[0]


class Task(Generic[P, C, R]):
    """A registered function. A direct call runs the function; after `enqueue`, a worker calls it."""

    __name__: str
    __qualname__: str

    def __init__(
        self,
        jobs: TaskClient,
        function: Callable[P, C],
        type: str | None,
        options: Mapping[str, Any],
        policy: Policy,
    ) -> None:
        self.type = _default_type(function) if type is None else checks.name("type", type)
        self.jobs = jobs
        self.function = function
        self.is_async = is_async(function)
        _reject_method(function)
        self.policy = policy
        self.timeout = policy.timeout
        self.arguments = Arguments(function, self.type)
        self._call: Call[P, C, R] = Call(self, {**options, "timeout": policy.timeout})
        # Invalid options raise where the task is defined, not where it is enqueued.
        NewJob(self.type, {}, **self._call.options).record("checked")
        functools.update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"<Task {self.type!r}>"

    def __reduce__(self) -> str:
        # Pickled like a function: by its qualified name.
        return self.__qualname__

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)

    @property
    def aio(self) -> "AsyncTask[P, C, R]":
        """The async version."""
        from tenure.client.aio import AsyncTask

        return AsyncTask(self)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Enqueue a call with these arguments, and return the id of the job."""
        return self._call.enqueue(*args, **kwargs)

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a call with these arguments as a job, for `enqueue_many`."""
        return self._call.job(*args, **kwargs)

    def using(self, **options: Unpack[Options]) -> Call[P, C, R]:
        """Return this task with other options for the jobs to enqueue. Options that are not named stay unchanged."""
        checks.reject_unknown(f"{self.type}.using", options, Options.__annotations__)
        given = {name: value for name, value in options.items() if name != "connection"}
        return replace(self._call, options={**self._call.options, **given}, connection=options.get("connection"))

    @reject_unknown_options
    def result(self, id: str, timeout: Seconds | None = None) -> R:
        """Wait until the job ends, at most `timeout` seconds, and return its result.

        Raises `JobFailed` or `JobCancelled` if the job ended without a result, `TimeoutError` if it has not ended.
        """
        job = self.jobs.get(id)
        if job is not None:
            self._require_own_type(job)
        return self.result_of(self.jobs.wait_for(id, timeout))

    def result_of(self, job: Job) -> R:
        """Return the result of a completed job of this task, decoded by the return annotation."""
        self._require_own_type(job)
        return self.arguments.decode_result(job.result)  # type: ignore[no-any-return]

    def _require_own_type(self, job: Job) -> None:
        if job.type != self.type:
            raise ConfigurationError(f"job {job.id!r} has type {job.type!r}, not {self.type!r}")

    def has_same_function(self, function: Callable[..., Any]) -> bool:
        """Whether this task has the same function, or an earlier version of it before a reload."""
        return is_same_function(function, self.function)


def is_same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions are the same, or the same definition before and after a reload."""
    if one is other:
        return True
    # A reload creates a new code object. Two closures that share one code object are different functions.
    return not _shares_code(one, other) and _definition_site(one) == _definition_site(other)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether the function must be awaited. Raises for a class or a generator function."""
    if inspect.isclass(function):
        raise ConfigurationError(f"{checks.short_repr(function)} is a class; a task must be a function")
    call = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004 - the code of the object
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise ConfigurationError(f"{checks.short_repr(function)} has a yield; a task must return its result")
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _default_type(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ConfigurationError(f"{checks.short_repr(function)} has no name; pass the type: @jobs.task('name')")
    return checks.name("type", name)


def _reject_method(function: Callable[..., Any]) -> None:
    if next(iter(inspect.signature(function).parameters), None) in {"self", "cls"}:
        raise ConfigurationError(
            f"{checks.short_repr(function)} is a method; a task must be a function, since a job stores no object"
        )


def _shares_code(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    code = getattr(one, "__code__", None)
    return code is getattr(other, "__code__", None) and getattr(one, "__closure__", None) is not None


def _definition_site(function: Callable[..., Any]) -> object:
    code = getattr(function, "__code__", None)
    return (
        object()
        if code is None
        else (function.__module__, function.__qualname__, code.co_filename, code.co_firstlineno)
    )
