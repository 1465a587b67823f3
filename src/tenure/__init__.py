"""A job queue and claim library for SQLite, PostgreSQL, Redis or your own table: atomic, leased, fenced.

Names are imported on first use, so that the command line and programs that need a part of tenure start quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.backends.redis_client import RedisStore
    from tenure.backends.tables.protocol import Finding, Severity
    from tenure.client.aio import AsyncClaim, AsyncClaims, AsyncJobs, AsyncTask
    from tenure.client.aio.table import AsyncTable, AsyncTableClaim, AsyncTableClaims
    from tenure.client.claim import Claim
    from tenure.client.claims import Claims
    from tenure.client.jobs import Jobs
    from tenure.client.retention import Retention
    from tenure.client.row import Row
    from tenure.client.row_claim import TableClaim, TableClaims
    from tenure.client.run import Run, TaskInterrupted, current
    from tenure.client.table import Table
    from tenure.core.answers import Cancel, Fail, Retry, Snooze
    from tenure.core.backoff import Backoff
    from tenure.core.explanation import Explanation
    from tenure.core.job import Ending, Job, NewJob, Outcome, Progress, State
    from tenure.core.operations import Count, Event, Moved, Reaped, Refusal, Schema, Stats, StatsRow, WorkerInfo
    from tenure.core.reasons import Reason, ReasonKind
    from tenure.core.table.spec import Columns, StateWords
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
    from tenure.tasks.task import Task
    from tenure.worker.work import work

    __version__: str
else:
    EXPORTS = {
        "tenure.client.aio": ("AsyncClaim", "AsyncClaims", "AsyncJobs", "AsyncTask"),
        "tenure.client.aio.table": ("AsyncTable", "AsyncTableClaim", "AsyncTableClaims"),
        "tenure.backends.redis_client": ("RedisStore",),
        "tenure.backends.tables.protocol": ("Finding", "Severity"),
        "tenure.client.claim": ("Claim",),
        "tenure.client.claims": ("Claims",),
        "tenure.core.answers": ("Cancel", "Fail", "Retry", "Snooze"),
        "tenure.core.explanation": ("Explanation",),
        "tenure.core.job": ("Ending", "Job", "NewJob", "Outcome", "Progress", "State"),
        "tenure.core.operations": (
            "Count",
            "Event",
            "Moved",
            "Reaped",
            "Refusal",
            "Schema",
            "Stats",
            "StatsRow",
            "WorkerInfo",
        ),
        "tenure.core.reasons": ("Reason", "ReasonKind"),
        "tenure.core.backoff": ("Backoff",),
        "tenure.core.table.spec": ("Columns", "StateWords"),
        "tenure.errors": (
            "ClaimLost",
            "ConfigurationError",
            "DuplicateTask",
            "InvalidPayload",
            "JobCancelled",
            "JobEnded",
            "JobFailed",
            "KeyTaken",
            "NoClaim",
            "SchemaOutdated",
            "StoreUnavailable",
            "TenureError",
            "UnknownTask",
        ),
        "tenure.client.jobs": ("Jobs",),
        "tenure.client.retention": ("Retention",),
        "tenure.client.row_claim": ("TableClaim", "TableClaims"),
        "tenure.client.row": ("Row",),
        "tenure.client.run": ("TaskInterrupted", "Run", "current"),
        "tenure.client.table": ("Table",),
        "tenure.tasks.task": ("Task",),
        "tenure.worker.work": ("work",),
    }

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return import_module("importlib.metadata").version("tenure")
        for module, names in EXPORTS.items():
            if name in names:
                value = globals()[name] = getattr(import_module(module), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "AsyncClaim",
    "AsyncClaims",
    "AsyncJobs",
    "AsyncTable",
    "AsyncTableClaim",
    "AsyncTableClaims",
    "AsyncTask",
    "Backoff",
    "Cancel",
    "Claim",
    "ClaimLost",
    "Claims",
    "Columns",
    "ConfigurationError",
    "Count",
    "DuplicateTask",
    "Ending",
    "Event",
    "Explanation",
    "Fail",
    "Finding",
    "InvalidPayload",
    "Job",
    "JobCancelled",
    "JobEnded",
    "JobFailed",
    "Jobs",
    "KeyTaken",
    "Moved",
    "NewJob",
    "NoClaim",
    "Outcome",
    "Progress",
    "Reaped",
    "Reason",
    "ReasonKind",
    "RedisStore",
    "Refusal",
    "Retention",
    "Retry",
    "Row",
    "Run",
    "Schema",
    "SchemaOutdated",
    "Severity",
    "Snooze",
    "State",
    "StateWords",
    "Stats",
    "StatsRow",
    "StoreUnavailable",
    "Table",
    "TableClaim",
    "TableClaims",
    "Task",
    "TaskInterrupted",
    "TenureError",
    "UnknownTask",
    "WorkerInfo",
    "current",
    "work",
]
