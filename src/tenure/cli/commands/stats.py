"""`tenure stats`."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import click

from tenure.cli.json_output import record_of
from tenure.cli.output import Output, coloured, with_output
from tenure.cli.param_types import duration
from tenure.cli.store_options import Place, with_place
from tenure.client.table import Table
from tenure.core.checks import EARLIEST
from tenure.core.durations import shown_duration
from tenure.core.operations import Column, Event

COLUMNS: tuple[Column, ...] = get_args(Column)
OF_TABLES: tuple[Column, ...] = ("recovered", "prevented")

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

    Of a table: "recovered" are rows whose holder died when the work was done already, "prevented" those whose next
    taker found it done. Both were not done again.

    \b
    Examples:
      tenure stats
      tenure stats --app app:orders
      tenure stats --since 10m --json
    """
    with place.source() as store:
        is_table = isinstance(store, Table)
        found, counts = store.stats(), [] if isinstance(store, Table) else store.counts(since)
    happened = Counter[Event]()
    for count in counts:
        happened[count.event] += count.number
    if output.is_json:
        for row in found.rows:
            output.record({**record_of(row), "paused": row.queue in found.paused})
        if not is_table:
            output.record({"since": since, **{event.value: happened[event] for event in Event}})
        return
    if is_table:
        _list(output, found)
        return
    _tabulate(output, found, COLUMNS[: -len(OF_TABLES)])
    said = {Event.OPERATOR: "moved by hand", Event.FAILED: "attempts failed"}
    words = ", ".join(f"{happened[event]:,} {said.get(event, event)}" for event in Event if happened[event])
    output.say(f"\nin the last {shown_duration(since)}: {words or 'nothing happened'}")


def _list(output: Output, stats: "Stats") -> None:
    """Show the one row that a table has; beside each other its numbers would not fit into a line."""
    if not stats.rows:
        output.say("there are no rows to be worked on")
    now = datetime.now(UTC)
    for row in stats.rows:
        numbers = [(column, f"{getattr(row, column):,}") for column in COLUMNS]
        facts = [("table", row.type), *numbers, ("oldest", _age(row.oldest_due_at, now))]
        output.say("\n".join(f"{name:<12} {text}" for name, text in facts if text))


def _tabulate(output: Output, stats: "Stats", columns: Sequence[Column]) -> None:
    if not stats.rows:
        output.say("there are no jobs")
    now = datetime.now(UTC)
    rows = [
        [
            row.queue,
            row.type,
            *(f"{getattr(row, column):,}" for column in columns),
            _age(row.oldest_due_at, now),
        ]
        for row in stats.rows
    ]
    if len(rows) > 1:
        rows.append(["all", "", *(f"{stats.total(column):,}" for column in columns), ""])
    if rows:
        output.table(["QUEUE", "TYPE", *(f"{column.upper()}#" for column in columns), "OLDEST"], rows)
    if stats.paused:
        output.show(coloured(f"paused: {', '.join(stats.paused)}", "yellow"))


def _age(since: datetime | None, now: datetime) -> str:
    """Return how old that is; a row that has no such moment is due since ever."""
    return "" if since is None or since <= EARLIEST else shown_duration((now - since).total_seconds())


COMMANDS = {"stats": stats}
