"""What is wrong with a service, for those who restart it, and for those who wait for it to begin.

Each complaint is one line. Without any, all is well.
"""

from tenure.service.status import ServiceStatus
from tenure.worker.status import WorkerStatus

MAX_BLOCKED_TIME = 60.0
"""Seconds after which a worker that stands still will hardly go on by itself."""


def liveness_problems(status: ServiceStatus) -> list[str]:
    """Return why the service should be restarted: workers, or a supervisor, that stand still.

    Not workers that are missing, for their supervisor starts them again; nor a store that is away, for that does not
    come back by a restart.
    """
    supervisor = (
        [f"the supervisor has been blocked for {status.quiet_for:.0f} s"] if status.quiet_for > MAX_BLOCKED_TIME else []
    )
    return supervisor + [
        f"{_describe(worker)} has been blocked for {worker.quiet_for:.0f} s"
        for worker in status.workers
        if worker.quiet_for > MAX_BLOCKED_TIME
    ]


def readiness_problems(status: ServiceStatus) -> list[str]:
    """Return why no job would be run now; one worker that can is enough."""
    if status.is_stopping:
        return ["the service is stopping"]
    if not status.workers:
        return [f"no worker is running, expected {status.wanted}"]
    problems = [_readiness_problem(worker) for worker in status.workers]
    return [] if None in problems else [each for each in problems if each is not None]


def _readiness_problem(worker: WorkerStatus) -> str | None:
    if worker.is_stopping:
        return f"{_describe(worker)} is stopping"
    if not worker.is_ready:
        return f"{_describe(worker)} has not started"
    if worker.is_store_failing:
        return f"{_describe(worker)} cannot reach its store"
    return None


def _describe(worker: WorkerStatus) -> str:
    return f"worker {worker.name} (process {worker.pid})"
