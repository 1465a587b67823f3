"""Wait for a job to finish."""

import math
from collections.abc import Iterator

from tenure.client.keeper import ticks
from tenure.core.error_summary import summarize_error
from tenure.core.job import Job, State
from tenure.errors import ConfigurationError, InvalidPayload, JobCancelled, JobFailed

SHORTEST_POLL_DELAY, LONGEST_POLL_DELAY = 0.005, 0.25


def completed_job(id: str, job: Job | None) -> Job | None:
    """Return the job if it is completed, None if it is unfinished; raise if it failed, was cancelled or is missing."""
    if job is None:
        raise ConfigurationError(f"there is no job {id!r}: it was never enqueued here, or it was deleted")
    match job.state:
        case State.QUEUED | State.RUNNING:
            return None
        case State.FAILED:
            reason = summarize_error(job.errors[-1] if job.errors else "")
            raise JobFailed(f"job {id!r} ({job.type}) failed: {reason}", id=id)
        case State.CANCELLED:
            raise JobCancelled(f"job {id!r} ({job.type}) was cancelled", id=id)
        case State.COMPLETED:
            if job.result_dropped:
                raise InvalidPayload(
                    f"job {id!r} is completed, but its result was dropped: it is too long, not valid JSON, or does not "
                    "match the annotation"
                )
            return job


def poll_delays(timeout: float | None) -> Iterator[float]:
    """Yield the seconds to wait between two polls, increasing, until `timeout` seconds have passed."""
    ends_at = math.inf if timeout is None else ticks() + timeout
    pause = SHORTEST_POLL_DELAY
    while (left := ends_at - ticks()) > 0:
        yield min(pause, left)
        pause = min(LONGEST_POLL_DELAY, 1.5 * pause)


def timeout_error(id: str, timeout: float | None) -> TimeoutError:
    return TimeoutError(f"job {id!r} did not finish within {timeout:g} seconds; it is unaffected")
