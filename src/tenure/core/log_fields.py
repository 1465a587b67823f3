"""The `extra` fields of log lines about a job. They never include the payload or the result."""

from tenure.core.job import Job


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
