"""Waiting for a job to end."""

import math
from collections.abc import Iterator

from tenure.client.keeper import ticks
from tenure.core.error_summary import headline
from tenure.core.job import Job, State
from tenure.errors import ConfigurationError, InvalidPayload, JobCancelled, JobFailed

SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.25


def completed(id: str, job: Job | None) -> Job | None:
    """Return the job if it is completed and None if it is not finished; raise if it never will be."""
    if job is None:
        raise ConfigurationError(f"there is no job {id!r}: it was never stored here, or it was purged since")
    match job.state:
        case State.QUEUED | State.RUNNING:
            return None
        case State.FAILED:
            reason = headline(job.errors[-1] if job.errors else "")
            raise JobFailed(f"job {id!r} ({job.type}) failed: {reason}", id=id)
        case State.CANCELLED:
            raise JobCancelled(f"job {id!r} ({job.type}) was cancelled", id=id)
        case State.COMPLETED:
            if job.result_dropped:
                raise InvalidPayload(
                    f"job {id!r} is completed, but its result could not be kept: it is too long, no JSON, or not as "
                    "annotated"
                )
            return job


def pauses(timeout: float | None) -> Iterator[float]:
    """Yield how long to wait between two looks, longer each time, until so many seconds have passed."""
    ends_at = math.inf if timeout is None else ticks() + timeout
    pause = SHORTEST_PAUSE
    while (left := ends_at - ticks()) > 0:
        yield min(pause, left)
        pause = min(LONGEST_PAUSE, 1.5 * pause)


def not_yet(id: str, timeout: float | None) -> TimeoutError:
    return TimeoutError(f"job {id!r} has not ended within {timeout:g} seconds; this changes nothing of it")
