"""What every line about a run says, for logs that machines read. Never the payload, nor the result."""

from tenure.core.job import Job


def job_log_fields(job: Job) -> dict[str, object]:
    """Return the facts of the run of a job, as its claim showed it: for the `extra` of a line."""
    return {
        "job": job.id,
        "type": job.type,
        "queue": job.queue,
        "attempt": job.attempts,
        "fence": job.fence,
        "worker": job.worker,
    }
