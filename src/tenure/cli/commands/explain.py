"""`tenure explain`."""

import click

from tenure.cli.json_output import format_timestamp, to_record
from tenure.cli.output import CommandOutput, with_output
from tenure.cli.store_options import StoreTarget, with_store_options


@click.command(short_help="Explain why a job is not running.")
@click.argument("id")
@with_store_options
@with_output
def explain(store_target: StoreTarget, output: CommandOutput, id: str) -> None:
    """Explain why a job is not running: each condition for a claim, unmet conditions first.

    \b
    Examples:
      tenure explain 0199a3f0-…
      tenure explain 0199a3f0-… --json
    """
    with store_target.source() as store:
        explanation = store.explain(id)
    if explanation is None:
        raise click.UsageError(f"job {id!r} not found; list jobs with `tenure jobs list`")
    if output.is_json:
        reasons = [to_record(reason) for reason in explanation.reasons]
        state, now = explanation.job.state.value, format_timestamp(explanation.now)
        output.print_record({"id": id, "state": state, "now": now, "verdict": explanation.verdict, "reasons": reasons})
    output.print_text(explanation.verdict, "bold")
    for reason in explanation.reasons:
        output.print_text(f"  {'+' if reason.holds else '-'} {reason.text}", "dim" if reason.holds else "red")
        if reason.remedy is not None:
            output.print_text(f"      {reason.remedy}")


COMMANDS = {"explain": explain}
