"""A function as a worker calls it, and what follows from how that ended."""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from dataclasses import replace
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, TypeGuard

from tenure.client.claim import Holder
from tenure.client.keeper import BadNews, Lease
from tenure.client.run import Interrupted, Run, Stop
from tenure.core import checks, transitions
from tenure.core.answers import Answer, Fail, Retry
from tenure.core.error_summary import headline_of
from tenure.core.fast_dataclass import quick_constructor
from tenure.core.job import Job, State
from tenure.core.log_fields import facts
from tenure.core.operations import ClaimRequest, Hold, Settlement
from tenure.errors import ConfigurationError, InvalidPayload
from tenure.tasks.registry import Block
from tenure.tasks.task import Policy, Task, is_async

if TYPE_CHECKING:
    from tenure.worker.work_source import Supply

log = logging.getLogger(__name__)

_build_hold = quick_constructor(Hold)


class Handler(ABC):
    """One a function and worker. It decides nothing about when and where it runs."""

    __slots__ = ("_encode", "_function", "_give_up_on", "_timeout", "arounds", "holder", "is_async", "supply", "type")

    supply: "Supply"
    """Where its jobs come from, in a worker."""

    def __init__(
        self,
        type: str,
        function: Callable[..., Any],
        policy: Policy,
        holder: Holder,
        arounds: Sequence[Callable[[], Block]],
        *,
        encode: Callable[[Any], Any] | None = None,
    ) -> None:
        self.type = type
        self.is_async = is_async(function)
        self.holder = holder if policy.backoff is None else replace(holder, backoff=policy.backoff)
        self._function = function
        self._encode = encode
        self._timeout = policy.timeout
        self._give_up_on = policy.give_up_on
        self.arounds = tuple(arounds)

    @abstractmethod
    def _called(self, run: Run) -> Any:
        """Call the function for a run; an async one returns what is to be awaited."""

    def run_of(self, job: Job, request: ClaimRequest, sent_at: float, on_bad_news: BadNews | None = None) -> Run:
        """Return the run of a job that was claimed by a request, sent at that moment."""
        run = Run(self.holder, job, lease_of(job, request, sent_at, on_bad_news))
        run.handler = self
        return run

    def time_limit(self, job: Job) -> float | None:
        return self._timeout if job.timeout is None else job.timeout

    def overtime(self, run: Run) -> TimeoutError:
        """Return what is recorded of a run that was stopped by its time limit."""
        return TimeoutError(f"{self.type!r} took longer than its time limit of {self.time_limit(run.job):g} seconds")

    def call(self, run: Run) -> Any:
        """Call a synchronous task."""
        if not self.arounds:
            return self._result(self._called(run))
        with ExitStack() as stack:
            for around in self.arounds:
                block = around()
                if not isinstance(block, AbstractContextManager):
                    raise ConfigurationError(
                        f"around gave {checks.shown(block)} for {self.type!r}, which is not async: it has to be a "
                        "context manager that is not async"
                    )
                stack.enter_context(block)
            return self._result(self._called(run))

    def call_async(self, run: Run) -> Awaitable[Any]:
        """Call an async task; what is returned has to be awaited."""
        if self.arounds:
            return self._call_within_blocks(run)
        called: Awaitable[Any] = self._called(run)
        return called

    async def _call_within_blocks(self, run: Run) -> Any:
        async with AsyncExitStack() as stack:
            for around in self.arounds:
                block = around()
                if isinstance(block, AbstractContextManager):
                    stack.enter_context(block)
                else:
                    await stack.enter_async_context(block)
            return await self._called(run)

    def _result(self, value: Any) -> Any:
        if isinstance(value, CoroutineType):
            value.close()
            raise ConfigurationError(f"{self.type!r} is not async but returned a coroutine; write it with `async def`")
        return value

    def ending(self, run: Run, value: Any, error: BaseException | None) -> Settlement | None:
        """Return the settlement that follows from what the task returned or raised; None if there is nothing to settle.

        That is so if the handler has settled the run by itself, or has lost it.
        """
        if run.is_settled or run.lease.is_over:
            if error is not None and run.is_settled:
                log.warning("job %s was %s, and raised %s", run.id, run.outcome, logged(error), extra=facts(run.job))
            return None
        try:
            return self._ending_with(run, value) if error is None else self.ending_by(run, error)
        except BaseException:
            # Not to be blamed on the job, but it must not be held for ever, nor be tried for ever.
            log.exception("the end of job %s cannot be told", run.id, extra=facts(run.job))
            return run.failure("the worker could not tell how the run ended; its log has the reason")

    def _ending_with(self, run: Run, value: Any) -> Settlement:
        if self._encode is not None and not isinstance(value, Answer):
            try:
                value = self._encode(value)
            except Exception:  # noqa: BLE001 - the work is done, whatever is wrong with its result
                self._say_that_the_result_is_dropped(run, value)
                return run.completion_without_result()
        settlement, mistake = run.ending_with(value)
        if isinstance(mistake, InvalidPayload):
            self._say_that_the_result_is_dropped(run, value)
        elif mistake is not None or isinstance(value, Fail | Retry):
            self._say_that_it_failed(run, settlement, mistake or value)
        return settlement

    def ending_by(self, run: Run, error: BaseException) -> Settlement:
        """Return the settlement that follows from what the task raised."""
        if run.is_loss(error):
            return transitions.released(run.lease.hold)
        if isinstance(error, Answer) or is_from_keyboard(error):
            settlement = run.ending_by(error)
            if isinstance(error, Fail | Retry):
                self._say_that_it_failed(run, settlement, error)
            return settlement
        if isinstance(error, asyncio.CancelledError | Interrupted) and run.stop is not None:
            return self._ending_by_stop(run, run.stop, error)
        if run.stop is Stop.SHUTDOWN:
            return transitions.released(run.lease.hold)
        settlement = run.failure(_of_the_task(error), final=isinstance(error, self._give_up_on))
        self._say_that_it_failed(run, settlement, error)
        return settlement

    def _ending_by_stop(self, run: Run, stop: Stop, cause: BaseException) -> Settlement:
        match stop:
            case Stop.CANCEL:
                return transitions.cancelled(run.lease.hold)
            case Stop.TIME_LIMIT:
                error = self.overtime(run)
                # Its traceback says where the handler was.
                error.__cause__ = _of_the_task(cause)
                settlement = run.failure(error, final=isinstance(error, self._give_up_on))
                self._say_that_it_failed(run, settlement, error)
                return settlement
            case Stop.LOST | Stop.SHUTDOWN:
                # Of a lost one, if nobody has taken it over yet: then it is not taken for a crash.
                return transitions.released(run.lease.hold)

    def _say_that_the_result_is_dropped(self, run: Run, value: Any) -> None:
        # Not the result itself, which nobody asked to have in a log.
        log.error(
            "job %s (%s) is completed, but its result, a %s, cannot be kept as JSON by its annotation",
            run.id,
            self.type,
            type(value).__name__,
            extra=facts(run.job),
        )

    def _say_that_it_failed(self, run: Run, settlement: Settlement, error: BaseException) -> None:
        what = logged(error)
        if settlement.state is State.FAILED:
            trace = None if isinstance(error, Answer | InvalidPayload) else error
            log.error("job %s (%s) failed for good: %s", run.id, self.type, what, exc_info=trace, extra=facts(run.job))
            return
        log.warning(
            "job %s (%s) failed, attempt %s of %s, again in %.1f s: %s",
            run.id,
            self.type,
            run.attempt,
            run.job.max_attempts or "any number",
            settlement.delay or 0.0,
            what,
            extra=facts(run.job),
        )


class TaskHandler(Handler):
    """One a task and worker."""

    __slots__ = ("_named",)

    def __init__(self, task: Task[..., Any, Any], holder: Holder, arounds: Sequence[Callable[[], Block]]) -> None:
        arguments = task.arguments
        arguments.resolve()
        encode = None if arguments.result_is_plain else arguments.encode_result
        super().__init__(task.type, task.function, task.policy, holder, arounds, encode=encode)
        self._named = arguments.named

    def _called(self, run: Run) -> Any:
        return self._function(**self._named(run.job.payload))


def lease_of(job: Job, request: ClaimRequest, sent_at: float, on_bad_news: BadNews | None) -> Lease:
    """Return the lease of a job that was claimed by a request, sent at that moment."""
    return Lease(_build_hold(job.id, job.fence, request.token), request.lease, sent_at, on_bad_news, job)


def is_from_keyboard(error: BaseException | None) -> TypeGuard[KeyboardInterrupt]:
    """Whether somebody pressed Ctrl-C: that comes to the main thread alone. Elsewhere a task raised it by itself."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def logged(error: BaseException) -> str:
    """Return an error as a line in a log says it. What is wrong with a payload or a result would show parts of it."""
    if isinstance(error, InvalidPayload):
        return "InvalidPayload: the payload or the result does not fit, see the errors of the job"
    return headline_of(error)


def _of_the_task(error: BaseException) -> BaseException:
    """Return the error with a traceback that begins in the code of the user."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("tenure."):
        trace = trace.tb_next
    return error.with_traceback(trace)
