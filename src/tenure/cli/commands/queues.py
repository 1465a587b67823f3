"""`tenure queues …`."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import click

from tenure.cli.output import Output, with_output
from tenure.cli.store_options import Place, with_place
from tenure.core.durations import shown_duration
from tenure.core.operations import Column

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
@with_place
@with_output
def list_(place: Place, output: Output) -> None:
    """List the queues that have jobs or are paused.

    \b
    Examples:
      tenure queues list
      tenure queues list --json
    """
    from tenure.cli.json_output import moment

    with place.jobs() as store:
        stats = store.stats()
    names = sorted({row.queue for row in stats.rows} | set(stats.paused))
    oldest = _oldest_due(stats)
    if output.is_json:
        for name in names:
            counts = {column: stats.total(column, queue=name) for column in get_args(Column)}
            waits = {"oldest_due_at": moment(oldest[name]) if name in oldest else None}
            output.record({"queue": name, "paused": name in stats.paused, **counts, **waits})
        return
    if not names:
        output.note("there are no jobs")
        return
    now = datetime.now(UTC)
    rows = [
        [
            name,
            *(f"{stats.total(column, queue=name):,}" for column in get_args(Column)),
            shown_duration((now - oldest[name]).total_seconds()) if name in oldest else "",
            "paused" if name in stats.paused else "",
        ]
        for name in names
    ]
    output.table(["QUEUE", *(f"{column.upper()}#" for column in get_args(Column)), "OLDEST", ""], rows)


@queues.command(short_help="Let no claim take jobs of these queues.")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@with_place
@with_output
def pause(place: Place, output: Output, names: tuple[str, ...]) -> None:
    """Let no claim take jobs of these queues. What runs goes on; jobs can be enqueued.

    \b
    Examples:
      tenure queues pause mail
    """
    with place.jobs() as store:
        store.pause(names)
        known = {row.queue for row in store.stats().rows}
    _tell(output, names, "paused")
    for name in names:
        if name not in known:
            output.note(f"no job is in a queue {name!r} now")


@queues.command(short_help="Let claims take jobs of these queues again.")
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
@with_place
@with_output
def resume(place: Place, output: Output, names: tuple[str, ...]) -> None:
    """Let claims take jobs of these queues again.

    \b
    Examples:
      tenure queues resume mail reports
    """
    with place.jobs() as store:
        paused = store.stats().paused
        store.resume(names)
    _tell(output, names, "resumed")
    for name in names:
        if name not in paused:
            output.note(f"{name!r} was not paused")


def _tell(output: Output, names: tuple[str, ...], done: str) -> None:
    for name in names:
        if output.is_json:
            output.record({"queue": name, "paused": done == "paused"})
        output.say(f"{done}: {name}")


def _oldest_due(stats: "Stats") -> dict[str, datetime]:
    moments: defaultdict[str, list[datetime]] = defaultdict(list)
    for row in stats.rows:
        if row.oldest_due_at is not None:
            moments[row.queue].append(row.oldest_due_at)
    return {queue: min(each) for queue, each in moments.items()}


COMMANDS = {"queues": queues}
