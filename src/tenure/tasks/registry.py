"""The tasks, schedules and context managers that are registered with a `Jobs`."""

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
    """Makes a function a task."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[None, None, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


class CronDecorator(Protocol):
    """Gives a task a schedule; makes a plain function a task first."""

    @overload  # a task is callable too; the decorator returns it unchanged
    def __call__(self, task: Task[P, C, R], /) -> Task[P, C, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[None, None, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A schedule, and the call to enqueue for each slot."""

    schedule: Schedule
    call: Call[..., Any, Any]
    arguments: Mapping[str, Any]

    def job(self) -> NewJob:
        return self.call.job(**self.arguments)

    def key(self) -> object:
        """Return the identity of a schedule: a repeated registration must have the same key."""
        return self.schedule, self.call.task.type, self.call.options, self.arguments


class Registry:
    """The tasks, schedules, `around` blocks and `lifespan` blocks of a `Jobs`."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any, Any]] = {}
        self._periodic: dict[str, Periodic] = {}
        self._arounds: list[Callable[[], Block]] = []
        self._lifespans: list[Callable[[], Block]] = []

    @property
    def tasks(self) -> Mapping[str, Task[..., Any, Any]]:
        """The tasks by type."""
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
        """Register a function, sync or async, as a task. By default the job type is the name of the function.

        The options apply to the jobs of the task. A job that raises an exception of `give_up_on` is not retried.
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
        """Enqueue a task at the times of a cron expression: once for each time, with any number of workers.

        `missed` decides about times at which no worker ran: "skip" them, catch up the "last", or "all". With a `key`,
        no job is enqueued while an earlier job with this key is live. If a task has several schedules, each needs a
        `name`, and may have its own `arguments`.
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
            # Invalid arguments raise here, not when the first slot is due.
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
        """Run each job inside a context manager. The function returns a context manager, or has a `yield`.

        Inside, `tenure.current()` is the run. The first one registered is the outermost. An async context manager
        works with async tasks only.
        """
        self._arounds.append(_block_factory("around", function))
        return function

    def lifespan(self, function: F) -> F:
        """Run each worker inside a context manager: entered before the first claim, left after the last handler."""
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
    """Check the options and build a policy."""
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
    """Return the full name of a function, for an error message."""
    name = getattr(function, "__qualname__", repr(function))
    return f"{getattr(function, '__module__', '?')}.{name}"
