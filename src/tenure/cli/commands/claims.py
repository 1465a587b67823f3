"""`tenure claim`, the commands that settle or extend claims, and `tenure reap`."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.cli.claim_input import read_holds
from tenure.cli.exit_codes import ExitCode, error_line, print_error
from tenure.cli.json_output import format_timestamp, to_json_value, to_record
from tenure.cli.next_claim import claims_from
from tenure.cli.output import CommandOutput, with_output
from tenure.cli.param_types import duration, parse_json, read_text
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.client import settling
from tenure.client.claim import Claim, claim_lost
from tenure.client.keeper import BLOCKED
from tenure.core import checks, transitions
from tenure.core.job import Job, Progress
from tenure.core.operations import (
    LARGEST_BATCH,
    Extension,
    Hold,
    HoldStatus,
    Query,
    Settlement,
    Unsettled,
    check_lease,
)
from tenure.errors import TenureError

if TYPE_CHECKING:
    from tenure.client.jobs import Jobs
    from tenure.client.table import Table

T = TypeVar("T")


@click.command(short_help="Claim due jobs and print the claims.")
@click.option("--queue", "-q", "queues", multiple=True, metavar="NAME", help="Only jobs of this queue; repeatable.")
@click.option("--type", "-t", "types", multiple=True, metavar="NAME", help="Only jobs of this type; repeatable.")
@click.option("--limit", type=int, default=1, show_default=True, metavar="N", help="Maximum number of jobs.")
@click.option("--lease", type=duration, show_default="60s, or the lease of the Table", help="Duration of the lease.")
@click.option("--wait", type=duration, default="0", help="Time to wait for the first job.")
@click.option("--worker", metavar="NAME", help="Name of the holder; default: host and process id.")
@with_store_options
@with_output
def claim(
    store_target: StoreTarget,
    output: CommandOutput,
    queues: tuple[str, ...],
    types: tuple[str, ...],
    limit: int,
    lease: float | None,
    wait: float,
    worker: str | None,
) -> int:
    """Claim due jobs, and print a line of JSON for each claim.

    You hold a claim until its lease expires. Only `tenure extend` extends the lease. The claims stay held
    after this command exits: complete, fail or release each claim. If no job is due, the command prints nothing and the
    exit code is 3.

    \b
    Examples:
      claim=$(tenure claim --queue mail) || exit
      tenure claim --limit 10 --lease 10m --wait 1m > claims
      tenure complete < claims
      tenure claim --app app:orders
    """
    with store_target.source() as jobs:
        claims = claims_from(
            jobs, queues=queues or None, types=types or None, limit=limit, lease=lease, wait=wait, worker=worker
        )
        for number, each in enumerate(claims):
            try:
                output.print_record(claim_record(each))
            except OSError:
                # The output is closed: release the claims that were not printed.
                with suppress(TenureError):
                    settling.settle(
                        jobs._backend, [transitions.build_release(unseen.lease.hold) for unseen in claims[number:]]
                    )
                raise
    return ExitCode.DONE if claims else ExitCode.NOTHING_DUE


def claim_record(claim: Claim) -> dict[str, Any]:
    """Return a claim as a record: its credentials and its job."""
    job = claim.job
    return {
        "id": job.id,
        "fence": claim.fence,
        "token": claim.token,
        "type": job.type,
        "queue": job.queue,
        "payload": to_json_value(job.payload),
        "attempt": job.attempts,
        "lease": claim.lease.length,
        "leased_until": None if job.leased_until is None else format_timestamp(job.leased_until),
        "meta": job.meta,
        "key": job.key,
        "priority": job.priority,
    }


@click.command(short_help="Complete claimed jobs.")
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@click.option("--result", metavar="JSON", help="Result of the jobs: JSON, or @FILE.")
@with_store_options
@with_output
def complete(store_target: StoreTarget, output: CommandOutput, claims: tuple[str, ...], result: str | None) -> int:
    """Complete claimed jobs.

    CLAIM is a line printed by `tenure claim`. Without CLAIM, lines are read from the standard input. Only the fields
    id, fence and token are used.

    \b
    Examples:
      tenure complete "$claim" --result '{"sent": true}'
      tenure complete < claims
    """
    if result == "-" and not claims:
        raise click.UsageError(
            "the standard input cannot hold both result and claims; pass the claims as arguments, or --result @FILE"
        )
    found = None if result is None else parse_json(read_text(result, "the result"), "the result")
    settlements = [transitions.build_completion(hold, found) for hold in read_holds(claims)]
    if any(each.result_dropped for each in settlements):
        print_error("result dropped: too long; the jobs are completed without a result")
    with store_target.source() as jobs:
        return settle(jobs, output, settlements)


@click.command(short_help="Record a failure of claimed jobs.")
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@click.option("--error", required=True, metavar="TEXT", help="The error: a text, or @FILE.")
@click.option("--final", is_flag=True, help="Do not retry, even if attempts are left.")
@click.option("--delay", type=duration, help="Retry after this time instead of the back-off.")
@with_store_options
@with_output
def fail(
    store_target: StoreTarget,
    output: CommandOutput,
    claims: tuple[str, ...],
    error: str,
    delay: float | None,
    *,
    final: bool,
) -> int:
    """Fail claimed jobs. A job is retried after the back-off, or failed if no attempt is left.

    CLAIM is a line printed by `tenure claim`. Without CLAIM, lines are read from the standard input.

    \b
    Examples:
      tenure fail "$claim" --error "server unavailable" --delay 10m
      tenure fail "$claim" --error @error.log
      tenure fail --error "no such user" --final < claims
    """
    if final and delay is not None:
        raise click.UsageError("pass either --final or --delay, not both: --final means no retry")
    why = checks.error_text("the error", read_text(error, "the error"))
    delay = checks.optional(checks.seconds, "delay", delay)
    holds = read_holds(claims)
    with store_target.source() as jobs:
        holder = jobs._open()[1]

        def ending(hold: Hold, job: Job) -> Settlement:
            backoff, random = holder.backoff, holder.random
            if delay is not None:
                return transitions.build_retry(hold, job, delay=delay, why=why, backoff=backoff, random=random)
            return transitions.build_failure(hold, job, why, final=final, backoff=backoff, random=random)

        return max((_fail(jobs, output, batch, ending) for batch in batches(holds)), default=ExitCode.DONE)


@click.command(short_help="Return claimed jobs to their queue.")
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@with_store_options
@with_output
def release(store_target: StoreTarget, output: CommandOutput, claims: tuple[str, ...]) -> int:
    """Return claimed jobs to their queue. The attempt does not count.

    CLAIM is a line printed by `tenure claim`. Without CLAIM, lines are read from the standard input.

    \b
    Examples:
      tenure release "$claim"
      tenure release < claims
    """
    settlements = [transitions.build_release(hold) for hold in read_holds(claims)]
    with store_target.source() as jobs:
        return settle(jobs, output, settlements)


@click.command(short_help="Extend the lease of claims.")
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@click.option("--lease", type=duration, default="60s", show_default=True, help="Minimum lease from now.")
@click.option("--progress", metavar="DONE[/OF]", help="Progress of the work.")
@click.option("--note", metavar="TEXT", help="Note on the progress; needs --progress.")
@with_store_options
@with_output
def extend(
    store_target: StoreTarget,
    output: CommandOutput,
    claims: tuple[str, ...],
    lease: float,
    progress: str | None,
    note: str | None,
) -> int:
    """Extend the lease of claims, and record their progress.

    CLAIM is a line printed by `tenure claim`. Without CLAIM, lines are read from the standard input. The output shows
    whether each claim is held, lost, or held with a cancel request of an operator. After a cancel request, settle the
    claim soon.

    \b
    Examples:
      tenure extend "$claim" --lease 10m
      tenure extend "$claim" --progress 3/10 --note "three pages"
    """
    shown = parse_progress(progress, note)
    extensions = [Extension(hold=hold, lease=check_lease(lease), progress=shown) for hold in read_holds(claims)]
    code = ExitCode.DONE
    with store_target.source() as jobs:
        for batch in batches(extensions):
            for extension, status in zip(batch, jobs._backend.extend(batch), strict=True):
                hold = extension.hold
                problem = settling.unextended_text(hold, status) if status in BLOCKED else None
                code = max(code, print_outcome(output, hold, status, problem))
    return code


def parse_progress(text: str | None, note: str | None) -> Progress | None:
    """Parse progress such as `3` or `3/10`."""
    if text is None:
        if note is not None:
            raise click.UsageError("--note needs --progress")
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(\d+(?:\.\d+)?))?", text.strip())
    if found is None:
        raise click.UsageError(f"invalid progress {text!r}: use 3 or 3/10")
    return Progress(done=float(found[1]), of=None if found[2] is None else float(found[2]), note=note)


@click.command(short_help="Reap expired claims, or all claims of a dead worker.")
@click.option("--worker", metavar="NAME", help="Reap all claims of this worker, which must be dead.")
@with_store_options
@with_output
def reap(store_target: StoreTarget, output: CommandOutput, worker: str | None) -> None:
    """Reap all expired claims now. Otherwise the next claim reaps them.

    With --worker, reap all claims of that worker, expired or not. `tenure workers` lists the names of workers.

    \b
    Examples:
      tenure reap
      tenure reap --worker web-3:4711
    """
    with store_target.source() as jobs:
        reaped = jobs.reap(worker=worker)
    for each in reaped:
        if output.is_json:
            output.print_record(to_record(each))
        output.print_text(f"{each.id}  {each.state}; was held by {each.worker} with fence {each.fence}")
    if not reaped:
        output.print_note("no expired claims")


def settle(jobs: "Jobs | Table[Any]", output: CommandOutput, settlements: Sequence[Settlement]) -> ExitCode:
    """Settle claims, and print the outcome of each."""
    code = ExitCode.DONE
    for batch in batches(settlements):
        for settlement, settled in zip(batch, settling.settle(jobs._backend, batch), strict=True):
            outcome, problem = str(settlement.outcome), None
            if isinstance(settled, Unsettled):
                outcome = HoldStatus.BUSY if settled.rejection is None else HoldStatus.REJECTED
                problem = settling.unsettled_text(settlement, settled)
            elif not settled:
                outcome = HoldStatus.LOST
            code = max(code, print_outcome(output, settlement.hold, outcome, problem))
    return code


def _fail(
    jobs: "Jobs | Table[Any]", output: CommandOutput, holds: Sequence[Hold], ending: Callable[[Hold, Job], Settlement]
) -> ExitCode:
    """Fail claims. The settings of each job decide whether it is retried."""
    found = jobs._backend.find(Query(ids=tuple({hold.id for hold in holds}), limit=LARGEST_BATCH)).jobs
    known = {job.id: job for job in found}
    lost = [print_outcome(output, hold, HoldStatus.LOST) for hold in holds if hold.id not in known]
    code = settle(jobs, output, [ending(hold, known[hold.id]) for hold in holds if hold.id in known])
    return max([code, *lost])


def print_outcome(output: CommandOutput, hold: Hold, outcome: str, problem: str | None = None) -> ExitCode:
    """Print the outcome of a claim, or why there is none."""
    if outcome == HoldStatus.LOST:
        problem = error_line(claim_lost(hold))
    if problem is not None:
        print_error(problem)
    if output.is_json:
        output.print_record({"id": hold.id, "fence": hold.fence, "outcome": str(outcome)})
    elif problem is None:
        output.print_text(f"{hold.id}  {outcome}")
    return ExitCode.DONE if problem is None else ExitCode.FAILED


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield batches that fit into a request."""
    for start in range(0, len(items), LARGEST_BATCH):
        yield items[start : start + LARGEST_BATCH]


COMMANDS = {"claim": claim, "complete": complete, "fail": fail, "release": release, "extend": extend, "reap": reap}
