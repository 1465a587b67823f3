"""How moments, spans and states read."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tenure.cli.output import coloured
from tenure.core.checks import EARLIEST
from tenure.core.durations import shown_duration
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


def ago(moment: datetime, now: datetime, units: int = 2) -> str:
    """Return when that is, seen from now."""
    seconds = (now - moment).total_seconds()
    return f"{shown_duration(seconds, units)} ago" if seconds >= 0 else f"in {shown_duration(-seconds, units)}"


def clock(moment: datetime) -> str:
    """Return a moment for people: in UTC, to the second."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def state_of(job: Job, now: datetime) -> "Text":
    """Return a job's state as it is shown: a queued one whose time has not come is scheduled."""
    word = "scheduled" if job.state is State.QUEUED and job.run_at > now else job.state.value
    return coloured(word, COLOURS[word])


def when(job: Job, now: datetime) -> str:
    """Return the moment that matters in a job's state, seen from now."""
    if job.finished_at is not None:
        return ago(job.finished_at, now, units=1)
    if job.state is State.RUNNING and job.started_at is not None:
        return f"for {shown_duration((now - job.started_at).total_seconds(), units=1)}"
    # A row that has no such moment is due since ever.
    return ago(job.run_at, now, units=1) if job.run_at > EARLIEST else "due"


def attempts(job: Job) -> str:
    """Return how many attempts a job has had, and how many it may have."""
    return f"{job.attempts}/{job.max_attempts or '∞'}"
