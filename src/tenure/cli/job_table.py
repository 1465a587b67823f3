"""A list of jobs, for people."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tenure.cli import formatting as words
from tenure.cli.output import Output
from tenure.core.error_summary import headline
from tenure.core.job import Job

if TYPE_CHECKING:
    from rich.text import Text

WIDE = 100
"""Columns from which on an error has room beside its job."""


def listed(output: Output, jobs: Sequence[Job]) -> None:
    """Print a line for each, with its last error, beside it or below."""
    now = datetime.now(UTC)
    columns = ["ID", "TYPE", "QUEUE", "STATE", "TRIED", "WHEN"]
    rows: list[list[str | Text]] = [
        [job.id, job.type, job.queue, words.state_of(job, now), words.attempts(job), words.when(job, now)]
        for job in jobs
    ]
    errors = [headline(job.errors[-1]) if job.errors else "" for job in jobs]
    if sys.stdout.isatty() and output.console().width < WIDE:
        output.table(columns, rows, below=errors)
    else:
        output.table([*columns, "LAST ERROR"], [[*row, error] for row, error in zip(rows, errors, strict=True)])
