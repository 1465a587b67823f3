"""`tenure queues …`."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import click

from tenure.cli.output import CommandOutput, with_output
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.core.durations import format_duration
from tenure.core.operations import StatsColumn

if TYPE_CHECKING:
    from tenure.core.operations import Stats


@click.group(short_help="List, pause and resume queues.")
def queues() -> None:
    """List, pause and resume queues.

    \b
    Examples:
      tenure queues list
      tenure queues pause mail
      tenure queues resume mail
    """


@queues.command("list", short_help="List the queues that have jobs or are paused.")
@with_store_options
@with_output
def list_(store_target: StoreTarget, output: CommandOutput) -> None:
    """List the queues that have jobs or are paused.

    \b
    Examples:
      tenure queues list
      tenure queues list --json
    """
    from tenure.cli.json_output import format_timestamp

    with store_target.jobs() as store:
        stats = store.stats()
    names = sorted({row.queue for row in stats.rows} | set(stats.paused))
    oldest = _oldest_due(stats)
    if output.is_json:
        for name in names:
            counts = {column: stats.total(column, queue=name) for column in get_args(StatsColumn)}
            waits = {"oldest_due_at": format_timestamp(oldest[name]) if name in oldest else None}
            output.print_record({"queue": name, "paused": name in stats.paused, **counts, **waits})
        return
    if not names:
        output.print_note("no jobs")
        return
    now = datetime.now(UTC)
    rows = [
        [
            name,
            *(f"{stats.total(column, queue=name):,}" for column in get_args(StatsColumn)),
            format_duration((now - oldest[name]).total_seconds()) if name in oldest else "",
            "paused" if name in stats.paused else "",
        ]
        for name in names
    ]
    output.print_table(["QUEUE", *(f"{column.upper()}#" for column in get_args(StatsColumn)), "OLDEST", ""], rows)


@queues.command(short_help="Pause queues: their jobs are not claimed.")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@with_store_options
@with_output
def pause(store_target: StoreTarget, output: CommandOutput, names: tuple[str, ...]) -> None:
    """Pause queues: their jobs are not claimed. Running jobs continue, and jobs can be enqueued.

    \b
    Examples:
      tenure queues pause mail
    """
    with store_target.jobs() as store:
        store.pause(names)
        known = {row.queue for row in store.stats().rows}
    _print_queues(output, names, "paused")
    for name in names:
        if name not in known:
            output.print_note(f"queue {name!r} has no jobs at present")


@queues.command(short_help="Resume paused queues.")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@with_store_options
@with_output
def resume(store_target: StoreTarget, output: CommandOutput, names: tuple[str, ...]) -> None:
    """Resume paused queues: their jobs are claimed again.

    \b
    Examples:
      tenure queues resume mail reports
    """
    with store_target.jobs() as store:
        paused = store.stats().paused
        store.resume(names)
    _print_queues(output, names, "resumed")
    for name in names:
        if name not in paused:
            output.print_note(f"{name!r} was not paused")


def _print_queues(output: CommandOutput, names: tuple[str, ...], state: str) -> None:
    for name in names:
        if output.is_json:
            output.print_record({"queue": name, "paused": state == "paused"})
        output.print_text(f"{state}: {name}")


def _oldest_due(stats: "Stats") -> dict[str, datetime]:
    due_times: defaultdict[str, list[datetime]] = defaultdict(list)
    for row in stats.rows:
        if row.oldest_due_at is not None:
            due_times[row.queue].append(row.oldest_due_at)
    return {queue: min(each) for queue, each in due_times.items()}


COMMANDS = {"queues": queues}
