"""What a `Jobs` knows of the functions that its workers run."""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from tenure.client.cron import Missed, Schedule
from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.checks import Seconds, reject_unknown_options
from tenure.core.job import NewJob, check_timeout
from tenure.errors import ConfigurationError, DuplicateTask
from tenure.tasks.task import Call, Policy, Task, TaskClient

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

ExceptionTypes = type[Exception] | tuple[type[Exception], ...]
Block = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]


class TaskDecorator(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[None, None, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


class CronDecorator(Protocol):
    """Gives a task a schedule; makes a task of a function first."""

    @overload  # a task is callable too; the decorator returns it unchanged
    def __call__(self, task: Task[P, C, R], /) -> Task[P, C, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[None, None, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A schedule, and the call that each of its slots asks for."""

    schedule: Schedule
    call: Call[..., Any, Any]
    arguments: Mapping[str, Any]

    def job(self) -> NewJob:
        return self.call.job(**self.arguments)

    def key(self) -> object:
        """Return what two of one name must have in common to be the same."""
        return self.schedule, self.call.task.type, self.call.options, self.arguments


class Registry:
    """The tasks of a `Jobs`, its schedules, and what its workers put around runs and around themselves."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any, Any]] = {}
        self._periodic: dict[str, Periodic] = {}
        self._arounds: list[Callable[[], Block]] = []
        self._lifespans: list[Callable[[], Block]] = []

    @property
    def tasks(self) -> Mapping[str, Task[..., Any, Any]]:
        """The tasks by their types."""
        return MappingProxyType(self._tasks)

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[None, None, R], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(
        self,
        type: str | None = None,
        *,
        queue: str = "default",
        priority: int = 0,
        max_attempts: int | None = 5,
        max_crashes: int = 3,
        timeout: Seconds | None = None,
        backoff: Backoff | None = None,
        give_up_on: ExceptionTypes = (),
    ) -> TaskDecorator: ...

    @reject_unknown_options
    def task(
        self,
        type: Callable[..., Any] | str | None = None,
        *,
        queue: str = "default",
        priority: int = 0,
        max_attempts: int | None = 5,
        max_crashes: int = 3,
        timeout: Seconds | None = None,
        backoff: Backoff | None = None,
        give_up_on: ExceptionTypes = (),
    ) -> Any:
        """Register a function, sync or async, as the task of a type of job; by default the type is its name.

        The options are those of its jobs. After an exception of `give_up_on` a job is not tried again.
        """
        function, type_name = (type, None) if callable(type) else (None, checks.optional(checks.name, "type", type))
        options = {
            "queue": queue,
            "priority": priority,
            "max_attempts": max_attempts,
            "max_crashes": max_crashes,
        }
        policy = build_policy(timeout, backoff, give_up_on)

        def register(function: Callable[..., Any]) -> Task[..., Any, Any]:
            return self._register(function, type_name, options, policy)

        return register if function is None else register(function)

    @reject_unknown_options
    def cron(
        self,
        expression: str,
        *,
        timezone: str = "UTC",
        missed: Missed = "last",
        name: str | None = None,
        key: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> CronDecorator:
        """Enqueue a task at each moment that the expression names, once, however many workers there are.

        `missed` says what becomes of the moments at which no worker ran: "skip" them, make up for the "last", or for
        "all". With a `key`, nothing is enqueued while the job of an earlier moment lives. A task with several schedules
        gives each a `name`, and the `arguments` of its call.
        """
        checks.text("expression", expression)

        def register(function: Any) -> Task[..., Any, Any]:
            if isinstance(function, Task) and function.jobs is not cast("TaskClient", self):
                raise ConfigurationError(f"{function!r} belongs to another Jobs; schedule it there")
            if not callable(function):
                raise ConfigurationError(f"cron needs a function or a task, not {checks.short_repr(function)}")
            task = function if isinstance(function, Task) else self._register(function, None, {}, Policy())
            schedule = Schedule(
                name=task.type if name is None else name, expression=expression, timezone=timezone, missed=missed
            )
            periodic = Periodic(schedule=schedule, call=task.using(key=key), arguments=dict(arguments or {}))
            # What cannot be enqueued is told here, not when its time has come.
            periodic.job()
            known = self._periodic.setdefault(schedule.name, periodic)
            if known is not periodic and known.key() != periodic.key():
                raise ConfigurationError(
                    f"schedule {schedule.name!r} exists already, with {known.schedule.expression!r}; "
                    "give one of the two another name="
                )
            self._periodic[schedule.name] = periodic
            return task

        return cast("CronDecorator", register)

    def around(self, function: F) -> F:
        """Put a block around each run: the function returns a context manager, or has a `yield`.

        `tenure.current()` is the run. The first given is the outermost. An async block is for async tasks alone.
        """
        self._arounds.append(_block_factory("around", function))
        return function

    def lifespan(self, function: F) -> F:
        """Put a block around each worker's life: entered before the first job is claimed, left after the last ended."""
        self._lifespans.append(_block_factory("lifespan", function))
        return function

    def _register(
        self, function: Callable[..., Any], type: str | None, options: Mapping[str, Any], policy: Policy
    ) -> Task[..., Any, Any]:
        if isinstance(function, Task) or not callable(function):
            raise ConfigurationError(f"a task must be a function, not {checks.short_repr(function)}")
        task: Task[..., Any, Any] = Task(cast("TaskClient", self), function, type, options, policy)
        known = self._tasks.get(task.type)
        if known is not None and not known.has_same_function(function):
            raise DuplicateTask(
                f"type {task.type!r} is registered twice: for {function_name(known.function)} and for "
                f"{function_name(function)}; give one of them another type: "
                f"@jobs.task({task.type + '2'!r})"
            )
        self._tasks[task.type] = task
        return task


def build_policy(timeout: object, backoff: object, errors: object) -> Policy:
    """Return a policy of these options, or raise."""
    if not isinstance(backoff, Backoff | None):
        raise ConfigurationError(f"backoff must be a tenure.Backoff, not {checks.short_repr(backoff)}")
    return Policy(
        timeout=check_timeout(timeout),
        backoff=backoff,
        give_up_on=tuple(map(_check_exception_type, errors if isinstance(errors, tuple) else (errors,))),
    )


def _check_exception_type(kind: object) -> type[Exception]:
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        raise ConfigurationError(f"give_up_on must be exceptions, such as (ValueError,), not {checks.short_repr(kind)}")
    return kind


def _block_factory(what: str, function: Any) -> Callable[[], Block]:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"{what} needs a function with a yield, or one that returns a context manager, not "
            f"{checks.short_repr(function)}"
        )
    try:
        inspect.signature(function).bind()
    except TypeError as exc:
        raise ConfigurationError(
            f"{what} needs a function without arguments, not {function_name(function)}: {exc}"
        ) from None
    if inspect.isgeneratorfunction(function):
        return contextmanager(function)
    return asynccontextmanager(function) if inspect.isasyncgenfunction(function) else function


def function_name(function: Callable[..., Any]) -> str:
    """Return a function as an error names it."""
    name = getattr(function, "__qualname__", repr(function))
    return f"{getattr(function, '__module__', '?')}.{name}"
