"""`tenure jobs …`: list, show, retry, cancel, delete and purge jobs."""

import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click

from tenure.cli.bulk import Bulk
from tenure.cli.bulk_moves import move_jobs, run_bulk
from tenure.cli.filters import with_filters
from tenure.cli.job_table import print_jobs
from tenure.cli.json_output import job_record
from tenure.cli.output import CommandOutput, with_output
from tenure.cli.param_types import duration, rate
from tenure.cli.selection import find_matching, get_jobs, require_state
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.core.filters import Filters
from tenure.core.job import FINISHED, State
from tenure.core.operations import Move

FINISHED_STATES = sorted(each.value for each in FINISHED)


@click.group(short_help="List, show, retry, cancel, delete and purge jobs.")
def jobs() -> None:
    """List, show, retry, cancel, delete and purge jobs.

    \b
    Examples:
      tenure jobs list --state failed --since 1h
      tenure jobs show 0199a3f0-…
      tenure jobs retry --queue mail --error Timeout --since 1h --dry-run
    """


@jobs.command("list", short_help="List jobs, newest first.")
@with_filters
@click.option(
    "--limit", "-n", type=click.IntRange(min=0), default=20, help="Maximum number; 0 for all.", show_default=True
)
@click.option("--oldest-first", is_flag=True, help="List in the order of enqueueing.")
@with_store_options
@with_output
def list_(
    store_target: StoreTarget, output: CommandOutput, filters: Filters, limit: int, *, oldest_first: bool
) -> None:
    """List jobs, newest first.

    \b
    Examples:
      tenure jobs list
      tenure jobs list --queue mail --state failed --error Timeout
      tenure jobs list --limit 0 --json | wc -l
    """
    limit = min(limit, sys.maxsize - 1)
    with store_target.source() as store:
        wanted: Filters = {**filters, "newest_first": not oldest_first}
        matching = find_matching(store, wanted)
        if output.is_json:
            for job in islice(matching, limit or None):
                output.print_record(job_record(job))
            return
        some = list(islice(matching, limit + 1 if limit else None))
    shown = some[:limit] if limit else some
    if not shown:
        output.print_note("no matching jobs")
        return
    print_jobs(output, shown)
    if len(some) > len(shown):
        output.print_note("more jobs match; use --limit 0 to list all, `tenure stats` to count")


@jobs.command(short_help="Show the details of jobs.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@with_store_options
@with_output
def show(store_target: StoreTarget, output: CommandOutput, ids: tuple[str, ...]) -> None:
    """Show the details of jobs: payload, result, history.

    \b
    Examples:
      tenure jobs show 0199a3f0-…
      tenure jobs show 0199a3f0-… --json
    """
    from tenure.cli.job_details import format_job

    with store_target.source() as store:
        shown = get_jobs(store, ids)
    for number, job in enumerate(shown):
        if output.is_json:
            output.print_record(job_record(job))
        else:
            output.print_text("\n" * bool(number) + format_job(job, datetime.now(UTC)))


def _with_selection(command: Any) -> Any:
    """Add the options that retry and cancel share."""
    for each in (
        click.argument("ids", nargs=-1, metavar="[ID]..."),
        with_filters,
        click.option("--all", "is_all", is_flag=True, help="All eligible jobs, without filters."),
        click.option("--reason", metavar="TEXT", help="Reason, kept in the history of each job."),
        click.option("--rate", type=rate, help="Maximum rate: 20/s, 600/m, 1000/h."),
        click.option("--dry-run", is_flag=True, help="Only show which jobs are affected."),
        with_store_options,
        with_output,
    )[::-1]:
        command = each(command)
    return command


@jobs.command(short_help="Queue failed or cancelled jobs again.")
@_with_selection
def retry(store_target: StoreTarget, output: CommandOutput, **options: Any) -> int:
    """Queue failed or cancelled jobs again, due now and with all attempts.

    Select jobs by ids or by filters. By ids, either all jobs are retried or none. By filters, a job must match all of
    them; without --state, only failed jobs are retried. Ctrl-C stops between two batches.

    \b
    Examples:
      tenure jobs retry 0199a3f0-…
      tenure jobs retry --queue mail --error Timeout --since 1h --dry-run
      tenure jobs retry --type send --rate 20/s --reason "mail relay restored"
      tenure jobs retry --all
    """
    return move_jobs(Move.RETRY, store_target, output, **options)


@jobs.command(short_help="Cancel queued jobs, and request the cancellation of running jobs.")
@_with_selection
def cancel(store_target: StoreTarget, output: CommandOutput, **options: Any) -> int:
    """Cancel queued jobs, and request the cancellation of running jobs.

    Select jobs by ids or by filters. By ids, either all jobs are cancelled or none. By filters, a job must match all
    of them. Ctrl-C stops between two batches.

    \b
    Examples:
      tenure jobs cancel 0199a3f0-…
      tenure jobs cancel --queue mail --scheduled --dry-run
      tenure jobs cancel --type report --reason "no longer needed"
    """
    return move_jobs(Move.CANCEL, store_target, output, **options)


@jobs.command(short_help="Delete finished jobs by id.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@with_store_options
@with_output
def delete(store_target: StoreTarget, output: CommandOutput, ids: tuple[str, ...]) -> int:
    """Delete finished jobs by id: either all of them or none.

    \b
    Examples:
      tenure jobs delete 0199a3f0-…
      tenure jobs list -s cancelled -n 0 --json | jq -r .id |
        xargs tenure jobs delete
    """
    with store_target.jobs() as store:
        chosen = get_jobs(store, ids)
        require_state(FINISHED, "deleted", chosen)
        return run_bulk(Bulk([job.id for job in chosen], rate=None, output=output), store.delete, "deleted", output)


@jobs.command(short_help="Delete jobs that finished long ago.")
@click.option("--older-than", type=duration, required=True, help="Jobs finished at least this long ago: 12h, 7d.")
@click.option(
    "--state",
    "-s",
    multiple=True,
    type=click.Choice(FINISHED_STATES),
    help="Only jobs in this state; repeatable.",
)
@click.option("--queue", "-q", multiple=True, metavar="NAME", help="Only jobs of this queue; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only count the jobs.")
@with_store_options
@with_output
def purge(
    store_target: StoreTarget,
    output: CommandOutput,
    older_than: float,
    state: tuple[str, ...],
    queue: tuple[str, ...],
    *,
    dry_run: bool,
) -> None:
    """Delete jobs that finished long ago. Workers also do this, after the times in `retention` of your Jobs.

    \b
    Examples:
      tenure jobs purge --older-than 7d --dry-run
      tenure jobs purge --older-than 0 --state cancelled --queue mail
    """
    states = [State(each) for each in state] or sorted(FINISHED)
    with store_target.jobs() as store:
        if dry_run:
            wanted: Filters = {"state": states, **({"queue": queue} if queue else {})}
            latest = datetime.now(UTC) - timedelta(seconds=older_than)
            number = sum(job.finished_at is not None and job.finished_at <= latest for job in store.find(**wanted))
        else:
            number = store.purge(older_than, state=states, queue=queue or None)
    if output.is_json:
        output.print_record({"purged": 0, "would_be": number} if dry_run else {"purged": number})
    counted = f"{number:,} job{'' if number == 1 else 's'}"
    output.print_text(f"would delete {counted}" if dry_run else f"deleted {counted}")


COMMANDS = {"jobs": jobs}
