"""`tenure jobs …`: look at jobs, and move them."""

import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click

from tenure.cli.bulk import Bulk
from tenure.cli.bulk_moves import act_on, move_jobs
from tenure.cli.filters import with_filters
from tenure.cli.job_table import listed
from tenure.cli.json_output import job_record
from tenure.cli.output import Output, with_output
from tenure.cli.param_types import duration, rate
from tenure.cli.selection import found, named, refuse_unless
from tenure.cli.store_options import Place, with_place
from tenure.core.filters import Filters
from tenure.core.job import FINISHED, State
from tenure.core.operations import Move

ENDS = sorted(each.value for each in FINISHED)


@click.group(short_help="List, show, retry, cancel, delete and purge jobs.")
def jobs() -> None:
    """Look at jobs, and move them.

    \b
    Examples:
      tenure jobs list --state failed --since 1h
      tenure jobs show 0199a3f0-…
      tenure jobs retry --queue mail --error Timeout --since 1h --dry-run
    """


@jobs.command("list", short_help="List jobs, the newest first.")
@with_filters
@click.option(
    "--limit", "-n", type=click.IntRange(min=0), default=20, help="How many at most; 0 for all.", show_default=True
)
@click.option("--oldest-first", is_flag=True, help="In the order in which they were enqueued.")
@with_place
@with_output
def list_(place: Place, output: Output, filters: Filters, limit: int, *, oldest_first: bool) -> None:
    """List jobs, the newest first.

    \b
    Examples:
      tenure jobs list
      tenure jobs list --queue mail --state failed --error Timeout
      tenure jobs list --limit 0 --json | wc -l
    """
    limit = min(limit, sys.maxsize - 1)
    with place.source() as store:
        wanted: Filters = {**filters, "newest_first": not oldest_first}
        matching = found(store, wanted)
        if output.is_json:
            for job in islice(matching, limit or None):
                output.record(job_record(job))
            return
        some = list(islice(matching, limit + 1 if limit else None))
    shown = some[:limit] if limit else some
    if not shown:
        output.note("no job matches")
        return
    listed(output, shown)
    if len(some) > len(shown):
        output.note("there are more; --limit 0 lists all, `tenure stats` counts them")


@jobs.command(short_help="Show all that is known of jobs.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@with_place
@with_output
def show(place: Place, output: Output, ids: tuple[str, ...]) -> None:
    """Show all that is known of jobs: payload, result, history.

    \b
    Examples:
      tenure jobs show 0199a3f0-…
      tenure jobs show 0199a3f0-… --json
    """
    from tenure.cli.job_details import sheet_of

    with place.source() as store:
        shown = named(store, ids)
    for number, job in enumerate(shown):
        if output.is_json:
            output.record(job_record(job))
        else:
            output.say("\n" * bool(number) + sheet_of(job, datetime.now(UTC)))


def _choosing(command: Any) -> Any:
    """Give a command what the verbs share that act on many."""
    for each in (
        click.argument("ids", nargs=-1, metavar="[ID]..."),
        with_filters,
        click.option("--all", "is_all", is_flag=True, help="Without a condition: all that can be."),
        click.option("--reason", metavar="TEXT", help="Kept in the history of each job."),
        click.option("--rate", type=rate, help="So many a second, minute or hour: 20/s, 600/m."),
        click.option("--dry-run", is_flag=True, help="Only say which jobs it would be."),
        with_place,
        with_output,
    )[::-1]:
        command = each(command)
    return command


@jobs.command(short_help="Queue failed or cancelled jobs again.")
@_choosing
def retry(place: Place, output: Output, **options: Any) -> int:
    """Queue failed or cancelled jobs again, now and with fresh attempts.

    Those that are named: all of them, or none. Or those that match every condition; of these the failed, unless --state
    says otherwise. Ctrl-C stops between two batches.

    \b
    Examples:
      tenure jobs retry 0199a3f0-…
      tenure jobs retry --queue mail --error Timeout --since 1h --dry-run
      tenure jobs retry --type send --rate 20/s --reason "the relay is back"
      tenure jobs retry --all
    """
    return move_jobs(Move.RETRY, place, output, **options)


@jobs.command(short_help="Cancel queued jobs, and ask running ones to stop.")
@_choosing
def cancel(place: Place, output: Output, **options: Any) -> int:
    """Cancel queued jobs, and ask running ones to stop.

    Those that are named: all of them, or none. Or those that match every condition. Ctrl-C stops between two batches.

    \b
    Examples:
      tenure jobs cancel 0199a3f0-…
      tenure jobs cancel --queue mail --scheduled --dry-run
      tenure jobs cancel --type report --reason "not needed any more"
    """
    return move_jobs(Move.CANCEL, place, output, **options)


@jobs.command(short_help="Forget finished jobs, by their ids.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@with_place
@with_output
def delete(place: Place, output: Output, ids: tuple[str, ...]) -> int:
    """Forget finished jobs: all that are named, or none.

    \b
    Examples:
      tenure jobs delete 0199a3f0-…
      tenure jobs list -s cancelled -n 0 --json | jq -r .id |
        xargs tenure jobs delete
    """
    with place.jobs() as store:
        chosen = named(store, ids)
        refuse_unless(FINISHED, "deleted", chosen)
        return act_on(Bulk([job.id for job in chosen], rate=None, output=output), store.delete, "deleted", output)


@jobs.command(short_help="Forget jobs that finished long ago.")
@click.option("--older-than", type=duration, required=True, help="Finished at least so long ago: 12h, 7d.")
@click.option(
    "--state",
    "-s",
    multiple=True,
    type=click.Choice(ENDS),
    help="Only in this state.",
)
@click.option("--queue", "-q", multiple=True, metavar="NAME", help="Only of this queue.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@with_place
@with_output
def purge(
    place: Place, output: Output, older_than: float, state: tuple[str, ...], queue: tuple[str, ...], *, dry_run: bool
) -> None:
    """Forget jobs that finished long ago. Workers do this by themselves, by the `keep` of the Jobs.

    \b
    Examples:
      tenure jobs purge --older-than 7d --dry-run
      tenure jobs purge --older-than 0 --state cancelled --queue mail
    """
    states = [State(each) for each in state] or sorted(FINISHED)
    with place.jobs() as store:
        if dry_run:
            wanted: Filters = {"state": states, **({"queue": queue} if queue else {})}
            latest = datetime.now(UTC) - timedelta(seconds=older_than)
            number = sum(job.finished_at is not None and job.finished_at <= latest for job in store.find(**wanted))
        else:
            number = store.purge(older_than, state=states, queue=queue or None)
    if output.is_json:
        output.record({"purged": 0, "would_be": number} if dry_run else {"purged": number})
    output.say(f"would be forgotten: {number:,}" if dry_run else f"forgotten: {number:,}")


COMMANDS = {"jobs": jobs}
