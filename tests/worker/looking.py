"""Helpers of the worker tests: read jobs, and wait for a condition."""

import time
from collections.abc import Callable

import tenure
from tenure.core.job import Outcome

DEADLINE = 120.0
"""Seconds after which a test fails; a passing test never waits so long."""


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    ends_at = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < ends_at, f"the condition did not hold within {DEADLINE:g} s"
        time.sleep(0.005)


def job_of(jobs: tenure.Jobs, id: str) -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job


def outcomes(job: tenure.Job) -> list[Outcome]:
    return [ending.outcome for ending in job.history]
