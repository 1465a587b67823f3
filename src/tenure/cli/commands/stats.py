"""`tenure stats`."""

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import click

from tenure.cli.output import Output, coloured, with_output
from tenure.cli.places import Place, with_place
from tenure.cli.records import record_of
from tenure.cli.values import duration
from tenure.core.moments import shown_duration
from tenure.core.operations import Column, Event

if TYPE_CHECKING:
    from tenure.core.operations import Stats


@click.command(short_help="Count the jobs by queue, type and state.")
@click.option(
    "--since", type=duration, default="1h", show_default=True, help="How far back to tell what happened, to 24h."
)
@with_place
@with_output
def stats(place: Place, output: Output, since: float) -> None:
    """Count the jobs by queue, type and state, and what happened lately.

    \b
    Of what happened, two lines are worth a look:
      expired   claims whose lease ran out; their jobs were taken over
      refused   late endings of such claims: what would have been overwritten

    \b
    Examples:
      tenure stats
      tenure stats --since 10m --json
    """
    with place.jobs() as store:
        found, counts = store.stats(), store.counts(since)
    happened = Counter[Event]()
    for count in counts:
        happened[count.event] += count.number
    if output.is_json:
        for row in found.rows:
            output.record({**record_of(row), "paused": row.queue in found.paused})
        output.record({"since": since, **{event.value: happened[event] for event in Event}})
        return
    _tabulate(output, found)
    said = {Event.OPERATOR: "moved by hand", Event.FAILED: "attempts failed"}
    words = ", ".join(f"{happened[event]:,} {said.get(event, event)}" for event in Event if happened[event])
    output.say(f"\nin the last {shown_duration(since)}: {words or 'nothing happened'}")


def _tabulate(output: Output, stats: "Stats") -> None:

    if not stats.rows:
        output.say("there are no jobs")
    now = datetime.now(UTC)
    rows = [
        [
            row.queue,
            row.type,
            *(f"{getattr(row, column):,}" for column in get_args(Column)),
            shown_duration((now - row.oldest_due_at).total_seconds()) if row.oldest_due_at else "",
        ]
        for row in stats.rows
    ]
    if len(rows) > 1:
        rows.append(["all", "", *(f"{stats.total(column):,}" for column in get_args(Column)), ""])
    if rows:
        output.table(["QUEUE", "TYPE", *(f"{column.upper()}#" for column in get_args(Column)), "OLDEST"], rows)
    if stats.paused:
        output.show(coloured(f"paused: {', '.join(stats.paused)}", "yellow"))


COMMANDS = {"stats": stats}
