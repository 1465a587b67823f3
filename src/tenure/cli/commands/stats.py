"""`tenure stats`."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import click

from tenure.cli.json_output import to_record
from tenure.cli.output import CommandOutput, styled_text, with_output
from tenure.cli.param_types import duration
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.client.table import Table
from tenure.core.checks import EARLIEST
from tenure.core.durations import format_duration
from tenure.core.operations import Event, StatsColumn

COLUMNS: tuple[StatsColumn, ...] = get_args(StatsColumn)
TABLE_COLUMNS: tuple[StatsColumn, ...] = ("recovered", "prevented", "stuck")

if TYPE_CHECKING:
    from tenure.core.operations import Stats


@click.command(short_help="Count jobs by queue, type and state.")
@click.option(
    "--since", type=duration, default="1h", show_default=True, help="Period of the event counts, at most 24h."
)
@with_store_options
@with_output
def stats(store_target: StoreTarget, output: CommandOutput, since: float) -> None:
    """Count jobs by queue, type and state, and recent events.

    \b
    Check the cause of these two events:
      expired   claims whose lease expired; the jobs can be claimed again
      refused   settlements of lost claims, which the store rejected

    For a Table: "recovered" counts rows whose holder died after the work was done; "prevented" counts rows whose work
    was already done when the next holder checked. In both cases the work was not repeated. "stuck" counts running rows
    whose lease expired more than two minutes ago: no worker runs, or the table rejects the end of their claims.

    \b
    Examples:
      tenure stats
      tenure stats --app app:orders
      tenure stats --since 10m --json
    """
    with store_target.source() as store:
        is_table = isinstance(store, Table)
        found, counts = store.stats(), [] if isinstance(store, Table) else store.counts(since)
    happened = Counter[Event]()
    for count in counts:
        happened[count.event] += count.number
    if output.is_json:
        for row in found.rows:
            output.print_record({**to_record(row), "paused": row.queue in found.paused})
        if not is_table:
            output.print_record({"since": since, **{event.value: happened[event] for event in Event}})
        return
    if is_table:
        _print_table_stats(output, found)
        return
    _print_stats(output, found, COLUMNS[: -len(TABLE_COLUMNS)])
    labels = {
        Event.OPERATOR: "retried or cancelled by an operator",
        Event.FAILED: "attempt failed" if happened[Event.FAILED] == 1 else "attempts failed",
    }
    activity = ", ".join(f"{happened[event]:,} {labels.get(event, event)}" for event in Event if happened[event])
    output.print_text(f"\nlast {format_duration(since)}: {activity or 'no activity'}")


def _print_table_stats(output: CommandOutput, stats: "Stats") -> None:
    """Print the single row of a Table one number a line: as a table row it would be too wide."""
    if not stats.rows:
        output.print_text("no rows to process")
    now = datetime.now(UTC)
    for row in stats.rows:
        numbers = [(column, f"{getattr(row, column):,}") for column in COLUMNS]
        facts = [("table", row.type), *numbers, ("oldest", _format_age(row.oldest_due_at, now))]
        output.print_text("\n".join(f"{name:<12} {text}" for name, text in facts if text))


def _print_stats(output: CommandOutput, stats: "Stats", columns: Sequence[StatsColumn]) -> None:
    if not stats.rows:
        output.print_text("no jobs")
    now = datetime.now(UTC)
    rows = [
        [
            row.queue,
            row.type,
            *(f"{getattr(row, column):,}" for column in columns),
            _format_age(row.oldest_due_at, now),
        ]
        for row in stats.rows
    ]
    if len(rows) > 1:
        rows.append(["all", "", *(f"{stats.total(column):,}" for column in columns), ""])
    if rows:
        output.print_table(["QUEUE", "TYPE", *(f"{column.upper()}#" for column in columns), "OLDEST"], rows)
    if stats.paused:
        output.print_renderable(styled_text(f"paused: {', '.join(stats.paused)}", "yellow"))


def _format_age(since: datetime | None, now: datetime) -> str:
    """Format the age of the oldest due job. A row without a due time has none."""
    return "" if since is None or since <= EARLIEST else format_duration((now - since).total_seconds())


COMMANDS = {"stats": stats}
