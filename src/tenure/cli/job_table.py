"""Print jobs as a table."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tenure.cli import formatting
from tenure.cli.output import CommandOutput
from tenure.core.error_summary import summarize_error
from tenure.core.job import Job

if TYPE_CHECKING:
    from rich.text import Text

WIDE_TERMINAL = 100
"""Terminal width from which the last error is shown beside the job."""


def print_jobs(output: CommandOutput, jobs: Sequence[Job]) -> None:
    """Print a line for each job, with the last error beside or below."""
    now = datetime.now(UTC)
    columns = ["ID", "TYPE", "QUEUE", "STATE", "TRIED", "WHEN"]
    rows: list[list[str | Text]] = [
        [
            job.id,
            job.type,
            job.queue,
            formatting.format_state(job, now),
            formatting.format_attempts(job),
            formatting.format_state_time(job, now),
        ]
        for job in jobs
    ]
    errors = [summarize_error(job.errors[-1]) if job.errors else "" for job in jobs]
    if sys.stdout.isatty() and output.console().width < WIDE_TERMINAL:
        output.print_table(columns, rows, below=errors)
    else:
        output.print_table([*columns, "LAST ERROR"], [[*row, error] for row, error in zip(rows, errors, strict=True)])
