"""`tenure explain`."""

import click

from tenure.cli.json_output import moment, record_of
from tenure.cli.output import Output, with_output
from tenure.cli.store_options import Place, with_place


@click.command(short_help="Say why a job is not running.")
@click.argument("id")
@with_place
@with_output
def explain(place: Place, output: Output, id: str) -> None:
    """Say why a job is not running: each condition of a claim, for this job, those that do not hold first.

    \b
    Examples:
      tenure explain 0199a3f0-…
      tenure explain 0199a3f0-… --json
    """
    with place.source() as store:
        explanation = store.explain(id)
    if explanation is None:
        raise click.UsageError(f"there is no job {id!r}; `tenure jobs list` shows what there is")
    if output.is_json:
        reasons = [record_of(reason) for reason in explanation.reasons]
        state, now = explanation.job.state.value, moment(explanation.now)
        output.record({"id": id, "state": state, "now": now, "verdict": explanation.verdict, "reasons": reasons})
    output.say(explanation.verdict, "bold")
    for reason in explanation.reasons:
        output.say(f"  {'+' if reason.holds else '-'} {reason.text}", "dim" if reason.holds else "red")
        if reason.remedy is not None:
            output.say(f"      {reason.remedy}")


COMMANDS = {"explain": explain}
