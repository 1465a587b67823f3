"""`tenure exec`."""

import logging

import click

from tenure.cli.exec_process import require_runnable
from tenure.cli.exec_run import LOST, UNRECORDED, ExecConfig, ExecRun
from tenure.cli.exit_codes import ExitCode, print_error
from tenure.cli.next_claim import ClaimOptions, claim_next
from tenure.cli.output import CommandOutput, with_output
from tenure.cli.param_types import duration
from tenure.cli.signals import Signals
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.client.claim import Claim
from tenure.client.jobs import Jobs
from tenure.core.job import Outcome
from tenure.core.operations import check_lease

MAX_EXIT_CODE = 255


class CommandAfterDashes(click.Command):
    """Parses options, then `--`, then a command with its arguments."""

    allow_interspersed_args = False
    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        command = tuple(args[at + 1 :])
        extra = super().parse_args(ctx, args[:at])
        if extra and not ctx.resilient_parsing:
            ctx.fail(f"missing -- before the command: tenure exec [OPTIONS] -- {extra[0]}")
        if not command and not ctx.resilient_parsing:
            ctx.fail("missing command: tenure exec [OPTIONS] -- ./work.sh")
        ctx.params["command"] = command
        return extra


@click.command(
    cls=CommandAfterDashes,
    options_metavar="[OPTIONS] -- COMMAND [ARG]...",
    short_help="Run a shell command for each job.",
)
@click.option("--queue", "-q", "queues", multiple=True, metavar="NAME", help="Only jobs of this queue; repeatable.")
@click.option("--type", "-t", "types", multiple=True, metavar="NAME", help="Only jobs of this type; repeatable.")
@click.option(
    "--lease", type=duration, show_default="60s, or the lease of the Table", help="Lease; extended while COMMAND runs."
)
@click.option("--wait", type=duration, help="Time to wait for a job. Default: one lease if other jobs are running.")
@click.option("--drain", is_flag=True, help="Run jobs until nothing is due.")
@click.option("--grace", type=duration, default="30s", show_default=True, help="Time for COMMAND to end when stopped.")
@click.option(
    "--give-up-on",
    type=click.IntRange(1, MAX_EXIT_CODE),
    multiple=True,
    metavar="CODE",
    help="Do not retry after this exit code; repeatable.",
)
@click.option("--result", "keeps_result", is_flag=True, help="Keep the output of COMMAND as the result, JSON or text.")
@click.option("--worker", metavar="NAME", help="Name of the holder; default: host and process id.")
@with_store_options
@with_output
def execute(
    store_target: StoreTarget,
    output: CommandOutput,
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
    """Claim a due job, and run COMMAND with the payload as a line of JSON on the standard input.

    The lease is extended while COMMAND runs. Exit code 0 completes the job. After any other exit code or a signal, the
    job is retried while attempts are left, then failed; the history shows exit code 75 as a retry, not as a failure.
    The environment of COMMAND has TENURE_ID, _FENCE, _TOKEN, _ATTEMPT, _TYPE and _QUEUE, and TENURE_CLAIM, which is the
    argument for `tenure extend`.

    The exit code is 0 if the job was completed, 1 if not, 3 if nothing was due. If nothing is due but other processes
    hold jobs, `tenure exec` waits for up to one lease, since those processes may be dead.

    \b
    Examples:
      tenure exec -- ./work.sh
      while tenure exec --queue mail -- ./send.sh; do :; done
      tenure exec --drain --wait 0 -- ./work.sh
      tenure exec --result --give-up-on 64 -- python3 resize.py --width 100
    """
    require_runnable(command[0])
    # This command prints lost claims and an unavailable store itself. The store still logs the rows that it skips.
    logging.getLogger("tenure.client").addHandler(logging.NullHandler())
    outcomes: list[str] = []
    with store_target.source() as jobs, Signals() as signals:
        seconds = check_lease(lease) if lease is not None else 60.0 if isinstance(jobs, Jobs) else jobs._lease
        claim_options = ClaimOptions(
            queues=queues or None, types=types or None, lease=seconds, wait=wait, worker=worker
        )
        config = ExecConfig(
            command=command,
            grace=grace,
            give_up_on=frozenset(give_up_on),
            keeps_result=keeps_result,
            url=store_target.absolute_url(jobs) if isinstance(jobs, Jobs) else None,
        )
        while (claim := claim_next(jobs, claim_options, signals)) is not None:
            if signals.received:
                claim.release()
                break
            run = ExecRun(claim, config, signals)
            outcomes.append(run.run())
            if run.was_done and outcomes[-1] == Outcome.COMPLETED:
                continue
            print_outcome(output, claim, outcomes[-1], run.reason)
            if not drain:
                break
    if signals.received:
        return 128 + signals.received[0]
    if not outcomes:
        return ExitCode.NOTHING_DUE
    return ExitCode.DONE if set(outcomes) == {Outcome.COMPLETED} else ExitCode.FAILED


def print_outcome(output: CommandOutput, claim: Claim, outcome: str, reason: str) -> None:
    """Print the outcome of a job. For people only failures: lost and unrecorded outcomes are already printed."""
    if output.is_json:
        output.print_record({"id": claim.id, "fence": claim.fence, "outcome": str(outcome)})
    elif outcome not in {LOST, UNRECORDED, Outcome.COMPLETED}:
        print_error(f"job {claim.id!r} {outcome}: {reason}")


COMMANDS = {"exec": execute}
