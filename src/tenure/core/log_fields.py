"""The `extra` fields and the ids of log lines about jobs. They never include the payload or the result."""

from collections.abc import Sequence

from tenure.core.job import Job

MOST_LISTED = 100
"""Maximum number of ids in the text of a log line."""


def job_log_fields(job: Job) -> dict[str, object]:
    """Return the `extra` fields for the run of a claimed job."""
    return {
        "job": job.id,
        "type": job.type,
        "queue": job.queue,
        "attempt": job.attempts,
        "fence": job.fence,
        "worker": job.worker,
    }


def list_ids(ids: Sequence[str]) -> str:
    """Return a text such as "1, 2, 3" or "1, 2, 3 and 98 more"."""
    more = f" and {len(ids) - MOST_LISTED} more" if len(ids) > MOST_LISTED else ""
    return f"{', '.join(ids[:MOST_LISTED])}{more}"
