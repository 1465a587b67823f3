"""Format times, durations and states."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tenure.cli.output import styled_text
from tenure.core.checks import EARLIEST
from tenure.core.durations import format_duration
from tenure.core.job import Job, State

if TYPE_CHECKING:
    from rich.text import Text

COLOURS = {
    "scheduled": "cyan",
    State.QUEUED: "default",
    State.RUNNING: "blue",
    State.COMPLETED: "green",
    State.FAILED: "red",
    State.CANCELLED: "yellow",
}


def format_relative(at: datetime, now: datetime, units: int = 2) -> str:
    """Format a time relative to now."""
    seconds = (now - at).total_seconds()
    return f"{format_duration(seconds, units)} ago" if seconds >= 0 else f"in {format_duration(-seconds, units)}"


def format_utc(at: datetime) -> str:
    """Format a time in UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_state(job: Job, now: datetime) -> "Text":
    """Return the displayed state: a queued job that is not yet due is `scheduled`."""
    word = "scheduled" if job.state is State.QUEUED and job.run_at > now else job.state.value
    return styled_text(word, COLOURS[word])


def format_state_time(job: Job, now: datetime) -> str:
    """Format the time that matters in the state of a job, relative to now."""
    if job.finished_at is not None:
        return format_relative(job.finished_at, now, units=1)
    if job.state is State.RUNNING and job.started_at is not None:
        return f"for {format_duration((now - job.started_at).total_seconds(), units=1)}"
    # A row without a `run_at` column has always been due.
    return format_relative(job.run_at, now, units=1) if job.run_at > EARLIEST else "due"


def format_attempts(job: Job) -> str:
    """Format the attempts of a job and their maximum."""
    return f"{job.attempts}/{job.max_attempts or '∞'}"
