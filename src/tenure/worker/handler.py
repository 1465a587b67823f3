"""Call the function of a task or table, and derive the settlement from its result."""

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
from tenure.client.keeper import Lease, LeaseCallback
from tenure.client.run import Run, StopReason, TaskInterrupted
from tenure.core import checks, transitions
from tenure.core.answers import Answer, Fail, Retry
from tenure.core.error_summary import summarize_exception
from tenure.core.fast_dataclass import fast_constructor
from tenure.core.job import Job, State
from tenure.core.log_fields import job_log_fields
from tenure.core.operations import ClaimRequest, Hold, Settlement
from tenure.errors import ConfigurationError, InvalidPayload
from tenure.tasks.registry import Block
from tenure.tasks.task import Policy, Task, is_async

if TYPE_CHECKING:
    from tenure.worker.work_source import WorkSource

log = logging.getLogger(__name__)

_build_hold = fast_constructor(Hold)


class Handler(ABC):
    """The handler of one task or table in one worker. The executors decide when and where it runs."""

    __slots__ = ("_encode", "_function", "_give_up_on", "_timeout", "arounds", "holder", "is_async", "source", "type")

    source: "WorkSource"
    """The work source of its jobs."""

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
    def _call_function(self, run: Run) -> Any:
        """Call the function for a run; an async function returns an awaitable."""

    def build_run(
        self, job: Job, request: ClaimRequest, sent_at: float, on_lost_or_cancelled: LeaseCallback | None = None
    ) -> Run:
        """Return the run of a job claimed by a request that was sent at `sent_at`."""
        run = Run(self.holder, job, build_lease(job, request, sent_at, on_lost_or_cancelled))
        run.handler = self
        return run

    def time_limit(self, job: Job) -> float | None:
        return self._timeout if job.timeout is None else job.timeout

    def timeout_error(self, run: Run) -> TimeoutError:
        """Return the error recorded for a run that was stopped by its time limit."""
        return TimeoutError(f"{self.type!r} exceeded its time limit of {self.time_limit(run.job):g} seconds")

    def call(self, run: Run) -> Any:
        """Call a synchronous task."""
        if not self.arounds:
            return self._reject_coroutine(self._call_function(run))
        with ExitStack() as stack:
            for around in self.arounds:
                block = around()
                if not isinstance(block, AbstractContextManager):
                    raise ConfigurationError(
                        f"around returned {checks.short_repr(block)} for the synchronous task {self.type!r}; "
                        "return a synchronous context manager"
                    )
                stack.enter_context(block)
            return self._reject_coroutine(self._call_function(run))

    def call_async(self, run: Run) -> Awaitable[Any]:
        """Call an async task; return an awaitable."""
        if self.arounds:
            return self._call_within_blocks(run)
        awaitable: Awaitable[Any] = self._call_function(run)
        return awaitable

    async def _call_within_blocks(self, run: Run) -> Any:
        async with AsyncExitStack() as stack:
            for around in self.arounds:
                block = around()
                if isinstance(block, AbstractContextManager):
                    stack.enter_context(block)
                else:
                    await stack.enter_async_context(block)
            return await self._call_function(run)

    def _reject_coroutine(self, value: Any) -> Any:
        if isinstance(value, CoroutineType):
            value.close()
            raise ConfigurationError(
                f"{self.type!r} is synchronous but returned a coroutine; define it with `async def`"
            )
        return value

    def settlement_for(self, run: Run, value: Any, error: BaseException | None) -> Settlement | None:
        """Return the settlement for the result or the exception of the task.

        Return None if the handler has settled the run itself, or has lost it.
        """
        if run.is_settled or run.lease.is_over:
            if error is not None and run.is_settled:
                log.warning(
                    "job %s is already %s; ignoring a later exception: %s",
                    run.id,
                    run.outcome,
                    error_for_log(error),
                    extra=job_log_fields(run.job),
                )
            return None
        try:
            return self._settlement_for_result(run, value) if error is None else self.settlement_for_error(run, error)
        except BaseException:
            # A fault of the worker, not of the job; but the job must be neither held nor retried for ever.
            log.exception("job %s: could not determine the outcome", run.id, extra=job_log_fields(run.job))
            return run.failure("the worker could not determine the outcome; see its log")

    def _settlement_for_result(self, run: Run, value: Any) -> Settlement:
        if self._encode is not None and not isinstance(value, Answer):
            try:
                value = self._encode(value)
            except Exception:  # noqa: BLE001 - the work is done, even if its result cannot be encoded
                self._log_dropped_result(run, value)
                return run.completion_without_result()
        settlement, mistake = run.settlement_for_result(value)
        if isinstance(mistake, InvalidPayload):
            self._log_dropped_result(run, value)
        elif mistake is not None or isinstance(value, Fail | Retry):
            self._log_failure(run, settlement, mistake or value)
        return settlement

    def settlement_for_error(self, run: Run, error: BaseException) -> Settlement:
        """Return the settlement for an exception of the task."""
        if run.is_own_loss(error):
            return transitions.build_release(run.lease.hold)
        if isinstance(error, Answer) or is_ctrl_c(error):
            settlement = run.settlement_for_error(error)
            if isinstance(error, Fail | Retry):
                self._log_failure(run, settlement, error)
            return settlement
        if isinstance(error, asyncio.CancelledError | TaskInterrupted) and run.stop_reason is not None:
            return self._settlement_for_stop(run, run.stop_reason, error)
        if run.stop_reason is StopReason.SHUTDOWN:
            return transitions.build_release(run.lease.hold)
        settlement = run.failure(_trim_traceback(error), final=isinstance(error, self._give_up_on))
        self._log_failure(run, settlement, error)
        return settlement

    def _settlement_for_stop(self, run: Run, stop: StopReason, cause: BaseException) -> Settlement:
        match stop:
            case StopReason.CANCEL:
                return transitions.build_cancellation(run.lease.hold)
            case StopReason.TIME_LIMIT:
                error = self.timeout_error(run)
                # The traceback of the cause shows where the handler was.
                error.__cause__ = _trim_traceback(cause)
                settlement = run.failure(error, final=isinstance(error, self._give_up_on))
                self._log_failure(run, settlement, error)
                return settlement
            case StopReason.LOST | StopReason.SHUTDOWN:
                # A lost claim too: if no worker has taken the job over yet, releasing it avoids a crash count.
                return transitions.build_release(run.lease.hold)

    def _log_dropped_result(self, run: Run, value: Any) -> None:
        # Never log the result itself: it may be confidential.
        log.error(
            "job %s (%s) completed, but its result was dropped: cannot encode %s as JSON by the annotation",
            run.id,
            self.type,
            type(value).__name__,
            extra=job_log_fields(run.job),
        )

    def _log_failure(self, run: Run, settlement: Settlement, error: BaseException) -> None:
        text = error_for_log(error)
        if settlement.state is State.FAILED:
            trace = None if isinstance(error, Answer | InvalidPayload) else error
            log.error(
                "job %s (%s) failed permanently: %s",
                run.id,
                self.type,
                text,
                exc_info=trace,
                extra=job_log_fields(run.job),
            )
            return
        log.warning(
            "job %s (%s) failed, attempt %s of %s, retrying in %.1f s: %s",
            run.id,
            self.type,
            run.attempt,
            run.job.max_attempts or "unlimited",
            settlement.delay or 0.0,
            text,
            extra=job_log_fields(run.job),
        )


class TaskHandler(Handler):
    """Call a task with the payload as keyword arguments."""

    __slots__ = ("_bind_payload",)

    def __init__(self, task: Task[..., Any, Any], holder: Holder, arounds: Sequence[Callable[[], Block]]) -> None:
        arguments = task.arguments
        arguments.resolve()
        encode = None if arguments.result_is_plain else arguments.encode_result
        super().__init__(task.type, task.function, task.policy, holder, arounds, encode=encode)
        self._bind_payload = arguments.decode_call

    def _call_function(self, run: Run) -> Any:
        return self._function(**self._bind_payload(run.job.payload))


def build_lease(job: Job, request: ClaimRequest, sent_at: float, on_lost_or_cancelled: LeaseCallback | None) -> Lease:
    """Return the lease of a job claimed by a request that was sent at `sent_at`."""
    return Lease(_build_hold(job.id, job.fence, request.token), request.lease, sent_at, on_lost_or_cancelled, job)


def is_ctrl_c(error: BaseException | None) -> TypeGuard[KeyboardInterrupt]:
    """Return whether the error is a Ctrl-C. Python raises it in the main thread only; elsewhere a task raised it."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def error_for_log(error: BaseException) -> str:
    """Return an error as text for the log, without the details of InvalidPayload, which may show the payload."""
    if isinstance(error, InvalidPayload):
        return "InvalidPayload: the payload or the result does not match the annotations; see the errors of the job"
    return summarize_exception(error)


def _trim_traceback(error: BaseException) -> BaseException:
    """Return the error with a traceback that begins in the user's code."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("tenure."):
        trace = trace.tb_next
    return error.with_traceback(trace)
