"""`tenure exec`."""

import logging
from typing import Any

import click

from tenure.cli.exec_process import must_be_runnable
from tenure.cli.exec_run import Attempt, Order
from tenure.cli.exit_codes import Code, complain
from tenure.cli.next_claim import Wanted, take
from tenure.cli.output import Output, with_output
from tenure.cli.param_types import duration
from tenure.cli.signals import Signals
from tenure.cli.store_options import Place, with_place
from tenure.client.claim import Claim
from tenure.client.jobs import Jobs
from tenure.client.row_claim import TableClaim
from tenure.core.job import Outcome
from tenure.core.operations import lease_of

HIGHEST_CODE = 255


class AfterDashes(click.Command):
    """A command line of options, then `--`, then another command with arguments of its own."""

    allow_interspersed_args = False
    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        command = tuple(args[at + 1 :])
        strange = super().parse_args(ctx, args[:at])
        if strange and not ctx.resilient_parsing:
            ctx.fail(f"put -- before the command: tenure exec [OPTIONS] -- {strange[0]}")
        if not command and not ctx.resilient_parsing:
            ctx.fail("name the command: tenure exec [OPTIONS] -- ./work.sh")
        ctx.params["command"] = command
        return strange


@click.command(
    cls=AfterDashes,
    options_metavar="[OPTIONS] -- COMMAND [ARG]...",
    short_help="Run a command for each job: a queue for the shell.",
)
@click.option("--queue", "-q", "queues", multiple=True, metavar="NAME", help="Only of this queue; may be repeated.")
@click.option("--type", "-t", "types", multiple=True, metavar="NAME", help="Only of this type; may be repeated.")
@click.option(
    "--lease", type=duration, show_default="60s, or that of the table", help="How long a sign of life holds a job."
)
@click.option("--wait", type=duration, help="How long to wait for a job. By default, a lease if others hold some.")
@click.option("--drain", is_flag=True, help="Go on until nothing is due.")
@click.option(
    "--grace", type=duration, default="30s", show_default=True, help="How long COMMAND may go on when stopped."
)
@click.option(
    "--give-up-on",
    type=click.IntRange(1, HIGHEST_CODE),
    multiple=True,
    metavar="CODE",
    help="An exit code after which it is not tried again; may be repeated.",
)
@click.option("--result", "keeps_result", is_flag=True, help="What COMMAND prints is the job's result, JSON or text.")
@click.option("--worker", metavar="NAME", help="Who claims; by default, host and process.")
@with_place
@with_output
def execute(
    place: Place,
    output: Output,
    command: tuple[str, ...],
    queues: tuple[str, ...],
    types: tuple[str, ...],
    lease: float | None,
    wait: float | None,
    grace: float,
    give_up_on: tuple[int, ...],
    worker: str | None,
    *,
    drain: bool,
    keeps_result: bool,
) -> int:
    """Take a due job and run COMMAND with its payload, as a line of JSON, on the standard input.

    The claim is kept alive while COMMAND runs. If it exits with 0 the job is completed; with 75 it is tried again; with
    another code, or killed, it failed: it is tried again as long as attempts are left. COMMAND finds TENURE_ID, _FENCE,
    _TOKEN, _ATTEMPT, _TYPE and _QUEUE in its environment, and in TENURE_CLAIM what `tenure extend` wants.

    The exit code is 0 if the job was completed, 1 if it was not, 3 if nothing was due. If nothing is due but others
    hold jobs, it waits for up to a lease: they may be dead.

    \b
    Examples:
      tenure exec -- ./work.sh
      while tenure exec --queue mail -- ./send.sh; do :; done
      tenure exec --drain --wait 0 -- ./work.sh
      tenure exec --result --give-up-on 64 -- python3 resize.py --width 100
    """
    must_be_runnable(command[0])
    # Of a loss, and of a store that is away, this command tells by itself.
    logging.getLogger("tenure").addHandler(logging.NullHandler())
    outcomes: list[Outcome | None] = []
    with place.source() as jobs, Signals() as signals:
        seconds = lease_of(lease) if lease is not None else 60.0 if isinstance(jobs, Jobs) else jobs._lease
        wanted = Wanted(queues=queues or None, types=types or None, lease=seconds, wait=wait, worker=worker)
        order = Order(
            command=command,
            grace=grace,
            give_up_on=frozenset(give_up_on),
            keeps_result=keeps_result,
            url=place.url_anywhere(jobs) if isinstance(jobs, Jobs) else None,
        )
        while (claim := take(jobs, wanted, signals)) is not None:
            if signals.received:
                claim.release()
                break
            if isinstance(claim, TableClaim) and is_done(claim):
                outcomes.append(Outcome.COMPLETED)
                continue
            attempt = Attempt(claim, order, signals)
            outcomes.append(attempt.run())
            tell(output, claim, outcomes[-1], attempt.why)
            if not drain:
                break
    if signals.received:
        return 128 + signals.received[0]
    if not outcomes:
        return Code.NOTHING_DUE
    return Code.DONE if set(outcomes) == {Outcome.COMPLETED} else Code.FAILED


def is_done(claim: TableClaim[Any]) -> bool:
    """Tell whether the work of a row is done, if its table knows; then complete it."""
    if not claim.held.rows.can_tell or not claim.already_done():
        return False
    claim.complete()
    return True


def tell(output: Output, claim: Claim, outcome: Outcome | None, why: str) -> None:
    """Tell what became of a job: people only if it is not done, and not of a loss, which they were told of."""
    if output.is_json:
        output.record({"id": claim.id, "fence": claim.fence, "outcome": "lost" if outcome is None else str(outcome)})
    elif outcome not in {None, Outcome.COMPLETED}:
        complain(f"job {claim.id!r} {outcome}: {why}")


COMMANDS = {"exec": execute}
