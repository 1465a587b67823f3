"""The status of a worker at one point in time."""

from dataclasses import dataclass

from tenure.worker.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """The status reported by a worker to its supervisor.

    `blocked_for` is the number of seconds for which the event loop or the claimer has been blocked. `running` jobs have
    started; `buffered` jobs are claimed and have not started.
    """

    name: str
    pid: int
    is_ready: bool
    is_stopping: bool
    is_store_failing: bool
    blocked_for: float
    running: int
    buffered: int
    summary: Summary
