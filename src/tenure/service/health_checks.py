"""What is wrong with a service, for those who restart it, and for those who wait for it to begin.

Each complaint is one line. Without any, all is well.
"""

from tenure.service.status import Condition
from tenure.worker.status import Vitals

QUIET = 60.0
"""Seconds after which a worker that stands still will hardly go on by itself."""


def against_life(condition: Condition) -> list[str]:
    """Return why the service should be restarted: workers, or a supervisor, that stand still.

    Not workers that are missing, for their supervisor starts them again; nor a store that is away, for that does not
    come back by a restart.
    """
    supervisor = (
        [f"the supervisor has been quiet for {condition.quiet_for:.0f} s"] if condition.quiet_for > QUIET else []
    )
    return supervisor + [
        f"{_named(worker)} has been quiet for {worker.quiet_for:.0f} s"
        for worker in condition.workers
        if worker.quiet_for > QUIET
    ]


def against_readiness(condition: Condition) -> list[str]:
    """Return why no job would be run now; one worker that can is enough."""
    if condition.is_stopping:
        return ["the service is stopping"]
    if not condition.workers:
        return [f"no worker is there, of {condition.wanted}"]
    found = [_complaint_of(worker) for worker in condition.workers]
    return [] if None in found else [each for each in found if each is not None]


def _complaint_of(worker: Vitals) -> str | None:
    if worker.is_stopping:
        return f"{_named(worker)} is stopping"
    if not worker.is_ready:
        return f"{_named(worker)} has not begun"
    if worker.is_store_failing:
        return f"{_named(worker)} gets no answer from its store"
    return None


def _named(worker: Vitals) -> str:
    return f"worker {worker.name} (process {worker.pid})"
