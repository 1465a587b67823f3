"""Check the health of a service: whether it should be restarted, and whether it can run jobs.

Each problem is one line. An empty list means healthy.
"""

from tenure.service.status import ServiceStatus
from tenure.worker.status import WorkerStatus

MAX_BLOCKED_TIME = 60.0
"""Seconds after which a blocked worker is unlikely to recover without a restart."""


def liveness_problems(status: ServiceStatus) -> list[str]:
    """Return why the service should be restarted: workers or a supervisor that are blocked.

    Missing workers do not count: the supervisor restarts them. Nor does an unavailable store: a restart does not help.
    """
    supervisor = (
        [f"the supervisor has been blocked for {status.blocked_for:.0f} s"]
        if status.blocked_for > MAX_BLOCKED_TIME
        else []
    )
    return supervisor + [
        f"{_describe(worker)} has been blocked for {worker.blocked_for:.0f} s"
        for worker in status.workers
        if worker.blocked_for > MAX_BLOCKED_TIME
    ]


def readiness_problems(status: ServiceStatus) -> list[str]:
    """Return why the service cannot run jobs now; one working worker is enough."""
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
