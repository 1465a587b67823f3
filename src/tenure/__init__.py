"""Race-free job claiming: atomic, leased, fenced."""

from tenure.claims import Claim, Claims
from tenure.core.answers import Cancel, Fail, Retry, Snooze
from tenure.core.job import Ending, Job, NewJob, Outcome, Progress, State
from tenure.core.operations import Count, Event, Moved, Reaped, Refusal, Stats, StatsRow, Worker
from tenure.core.retry import Backoff
from tenure.errors import (
    ClaimLost,
    ConfigurationError,
    InvalidPayload,
    KeyTaken,
    StoreUnavailable,
    TenureError,
)
from tenure.jobs import Jobs

__all__ = [
    "Backoff",
    "Cancel",
    "Claim",
    "ClaimLost",
    "Claims",
    "ConfigurationError",
    "Count",
    "Ending",
    "Event",
    "Fail",
    "InvalidPayload",
    "Job",
    "Jobs",
    "KeyTaken",
    "Moved",
    "NewJob",
    "Outcome",
    "Progress",
    "Reaped",
    "Refusal",
    "Retry",
    "Snooze",
    "State",
    "Stats",
    "StatsRow",
    "StoreUnavailable",
    "TenureError",
    "Worker",
]
