"""Race-free job claiming: atomic, leased, fenced."""

from typing import TYPE_CHECKING

from tenure.claim import Claim
from tenure.claims import Claims
from tenure.core.answers import Cancel, Fail, Retry, Snooze
from tenure.core.explanation import Explanation
from tenure.core.job import Ending, Job, NewJob, Outcome, Progress, State
from tenure.core.operations import Count, Event, Moved, Reaped, Refusal, Stats, StatsRow, Worker
from tenure.core.reasons import Reason, ReasonKind
from tenure.core.retry import Backoff
from tenure.errors import (
    ClaimLost,
    ConfigurationError,
    DuplicateTask,
    InvalidPayload,
    JobCancelled,
    JobEnded,
    JobFailed,
    KeyTaken,
    NoClaim,
    SchemaOutdated,
    StoreUnavailable,
    TenureError,
    UnknownTask,
)
from tenure.jobs import Jobs
from tenure.keep import Keep
from tenure.run import Interrupted, Run, current
from tenure.tasks.task import Task

if TYPE_CHECKING:
    from tenure.aio import AsyncClaim, AsyncClaims, AsyncJobs, AsyncTask

    __version__: str
else:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("tenure")
        # Only who asks for a twin imports asyncio.
        if name not in {"AsyncClaim", "AsyncClaims", "AsyncJobs", "AsyncTask"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tenure import aio

        return getattr(aio, name)


__all__ = [
    "AsyncClaim",
    "AsyncClaims",
    "AsyncJobs",
    "AsyncTask",
    "Backoff",
    "Cancel",
    "Claim",
    "ClaimLost",
    "Claims",
    "ConfigurationError",
    "Count",
    "DuplicateTask",
    "Ending",
    "Event",
    "Explanation",
    "Fail",
    "Interrupted",
    "InvalidPayload",
    "Job",
    "JobCancelled",
    "JobEnded",
    "JobFailed",
    "Jobs",
    "Keep",
    "KeyTaken",
    "Moved",
    "NewJob",
    "NoClaim",
    "Outcome",
    "Progress",
    "Reaped",
    "Reason",
    "ReasonKind",
    "Refusal",
    "Retry",
    "Run",
    "SchemaOutdated",
    "Snooze",
    "State",
    "Stats",
    "StatsRow",
    "StoreUnavailable",
    "Task",
    "TenureError",
    "UnknownTask",
    "Worker",
    "current",
]
