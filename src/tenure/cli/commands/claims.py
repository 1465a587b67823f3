"""`tenure claim`, and what is done with claims: `complete`, `fail`, `release`, `extend`; and `reap`."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.cli.claim_input import holds_of
from tenure.cli.exit_codes import Code, complain, told
from tenure.cli.json_output import moment, plain, record_of
from tenure.cli.next_claim import claims_from
from tenure.cli.output import Output, with_output
from tenure.cli.param_types import duration, json_of, text_of
from tenure.cli.store_options import Place, with_place
from tenure.client.claim import Claim, lost
from tenure.core import checks, transitions
from tenure.core.job import Job, Progress
from tenure.core.operations import LARGEST_BATCH, Extension, Hold, Holding, Query, Settlement, lease_of
from tenure.errors import TenureError

if TYPE_CHECKING:
    from tenure.client.jobs import Jobs
    from tenure.client.table import Table

T = TypeVar("T")

LOST = "lost"


@click.command(short_help="Take due jobs; print the claims.")
@click.option("--queue", "-q", "queues", multiple=True, metavar="NAME", help="Only of this queue; may be repeated.")
@click.option("--type", "-t", "types", multiple=True, metavar="NAME", help="Only of this type; may be repeated.")
@click.option("--limit", type=int, default=1, show_default=True, metavar="N", help="At most so many.")
@click.option("--lease", type=duration, show_default="60s, or that of the table", help="How long a claim holds.")
@click.option("--wait", type=duration, default="0", help="How long to wait for the first job.")
@click.option("--worker", metavar="NAME", help="Who claims; by default, host and process.")
@with_place
@with_output
def claim(
    place: Place,
    output: Output,
    queues: tuple[str, ...],
    types: tuple[str, ...],
    limit: int,
    lease: float | None,
    wait: float,
    worker: str | None,
) -> int:
    """Take due jobs, and print a line of JSON for each claim.

    The claims hold for their lease. Nothing prolongs it but `tenure extend`, and nothing gives them back when this
    command has ended: complete, fail or release them. If nothing is due, nothing is printed and the exit code is 3.

    \b
    Examples:
      claim=$(tenure claim --queue mail) || exit
      tenure claim --limit 10 --lease 10m --wait 1m > claims
      tenure complete < claims
      tenure claim --app app:orders
    """
    with place.source() as jobs:
        claims = claims_from(
            jobs, queues=queues or None, types=types or None, limit=limit, lease=lease, wait=wait, worker=worker
        )
        for number, each in enumerate(claims):
            try:
                output.record(claim_record(each))
            except OSError:
                # Nobody will know of these.
                with suppress(TenureError):
                    jobs._backend.settle([transitions.released(unseen.lease.hold) for unseen in claims[number:]])
                raise
    return Code.DONE if claims else Code.NOTHING_DUE


def claim_record(claim: Claim) -> dict[str, Any]:
    """Return a claim as it is printed: what its holder shows, and what there is to do."""
    job = claim.job
    return {
        "id": job.id,
        "fence": claim.fence,
        "token": claim.token,
        "type": job.type,
        "queue": job.queue,
        "payload": plain(job.payload),
        "attempt": job.attempts,
        "lease": claim.lease.length,
        "leased_until": None if job.leased_until is None else moment(job.leased_until),
        "meta": job.meta,
        "key": job.key,
        "priority": job.priority,
    }


@click.command(short_help="End claims: the jobs are done.")
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@click.option("--result", metavar="JSON", help="What came of it: JSON, or @FILE.")
@with_place
@with_output
def complete(place: Place, output: Output, claims: tuple[str, ...], result: str | None) -> int:
    """End claims: the jobs are completed, for good.

    A CLAIM is what `tenure claim` printed; without one, they are read from the standard input. Of its fields, id, fence
    and token count.

    \b
    Examples:
      tenure complete "$claim" --result '{"sent": true}'
      tenure complete < claims
    """
    if result == "-" and not claims:
        raise click.UsageError("the standard input cannot be the result and the claims; name the claims, or use @FILE")
    found = None if result is None else json_of(text_of(result, "the result"), "the result")
    settlements = [transitions.completed(hold, found) for hold in holds_of(claims)]
    if any(each.result_dropped for each in settlements):
        complain("the result is too long to be kept; the jobs are completed without")
    with place.source() as jobs:
        return settle(jobs, output, settlements)


@click.command(short_help="End claims: the jobs failed.")
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@click.option("--error", required=True, metavar="TEXT", help="Why: a text, or @FILE.")
@click.option("--final", is_flag=True, help="Do not try again, whatever attempts are left.")
@click.option("--delay", type=duration, help="Try again after this time, and not after the back-off.")
@with_place
@with_output
def fail(place: Place, output: Output, claims: tuple[str, ...], error: str, delay: float | None, *, final: bool) -> int:
    """End claims: the jobs are tried again after the back-off, or have failed if no attempt is left.

    A CLAIM is what `tenure claim` printed; without one, they are read from the standard input.

    \b
    Examples:
      tenure fail "$claim" --error "the server is away" --delay 10m
      tenure fail "$claim" --error @error.log
      tenure fail --error "no such user" --final < claims
    """
    if final and delay is not None:
        raise click.UsageError("give --final or --delay, not both: what is final is not tried again")
    why = checks.error_text("the error", text_of(error, "the error"))
    delay = checks.optional(checks.seconds, "delay", delay)
    holds = holds_of(claims)
    with place.source() as jobs:
        holder = jobs._open()[1]

        def ending(hold: Hold, job: Job) -> Settlement:
            backoff, random = holder.backoff, holder.random
            if delay is not None:
                return transitions.retried(hold, job, delay=delay, why=why, backoff=backoff, random=random)
            return transitions.failed(hold, job, why, final=final, backoff=backoff, random=random)

        return max((_fail(jobs, output, batch, ending) for batch in batches(holds)), default=Code.DONE)


@click.command(short_help="End claims: give the jobs back.")
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@with_place
@with_output
def release(place: Place, output: Output, claims: tuple[str, ...]) -> int:
    """End claims: the jobs are queued as if they had not been taken, and the attempts do not count.

    A CLAIM is what `tenure claim` printed; without one, they are read from the standard input.

    \b
    Examples:
      tenure release "$claim"
      tenure release < claims
    """
    settlements = [transitions.released(hold) for hold in holds_of(claims)]
    with place.source() as jobs:
        return settle(jobs, output, settlements)


@click.command(short_help="Prolong claims.")
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@click.option("--lease", type=duration, default="60s", show_default=True, help="For at least so long from now.")
@click.option("--progress", metavar="DONE[/OF]", help="How far the work has come.")
@click.option("--note", metavar="TEXT", help="A word about the progress.")
@with_place
@with_output
def extend(
    place: Place, output: Output, claims: tuple[str, ...], lease: float, progress: str | None, note: str | None
) -> int:
    """Prolong claims, and show how far the work has come.

    A CLAIM is what `tenure claim` printed; without one, they are read from the standard input. Each is told to be held
    or lost, or that a cancel was asked for: then end it soon.

    \b
    Examples:
      tenure extend "$claim" --lease 10m
      tenure extend "$claim" --progress 3/10 --note "three pages"
    """
    shown = progress_of(progress, note)
    extensions = [Extension(hold=hold, lease=lease_of(lease), progress=shown) for hold in holds_of(claims)]
    code = Code.DONE
    with place.source() as jobs:
        for batch in batches(extensions):
            for extension, holding in zip(batch, jobs._backend.extend(batch), strict=True):
                code = max(code, report(output, extension.hold, LOST if holding is Holding.LOST else str(holding)))
    return code


def progress_of(text: str | None, note: str | None) -> Progress | None:
    """Return how far the work has come: `3`, or `3/10`."""
    if text is None:
        if note is not None:
            raise click.UsageError("--note is about progress, so give --progress as well")
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(\d+(?:\.\d+)?))?", text.strip())
    if found is None:
        raise click.UsageError(f"{text!r} is no progress; write 3 or 3/10")
    return Progress(done=float(found[1]), of=None if found[2] is None else float(found[2]), note=note)


@click.command(short_help="Take back claims of holders that are gone.")
@click.option("--worker", metavar="NAME", help="All that this one holds: you know that it is dead.")
@with_place
@with_output
def reap(place: Place, output: Output, worker: str | None) -> None:
    """Take back the claims whose lease ran out, now and not with the next claim.

    With --worker, all that this worker holds is taken back, run out or not. `tenure workers` shows their names.

    \b
    Examples:
      tenure reap
      tenure reap --worker web-3:4711
    """
    with place.source() as jobs:
        reaped = jobs.reap(worker=worker)
    for each in reaped:
        if output.is_json:
            output.record(record_of(each))
        output.say(f"{each.id}  {each.state}; {each.worker} held it under fence {each.fence}")
    if not reaped:
        output.note("there is nothing to take back")


def settle(jobs: "Jobs | Table[Any]", output: Output, settlements: Sequence[Settlement]) -> Code:
    """End claims as it was decided, and tell of each what became of it."""
    code = Code.DONE
    for batch in batches(settlements):
        for settlement, landed in zip(batch, jobs._backend.settle(batch), strict=True):
            code = max(code, report(output, settlement.hold, str(settlement.outcome) if landed else LOST))
    return code


def _fail(
    jobs: "Jobs | Table[Any]", output: Output, holds: Sequence[Hold], ending: Callable[[Hold, Job], Settlement]
) -> Code:
    """End claims by a failure: whether the job is tried again depends on the job."""
    found = jobs._backend.find(Query(ids=tuple({hold.id for hold in holds}), limit=LARGEST_BATCH)).jobs
    known = {job.id: job for job in found}
    gone = [report(output, hold, LOST) for hold in holds if hold.id not in known]
    code = settle(jobs, output, [ending(hold, known[hold.id]) for hold in holds if hold.id in known])
    return max([code, *gone])


def report(output: Output, hold: Hold, outcome: str) -> Code:
    """Tell what became of a claim."""
    if outcome == LOST:
        complain(told(lost(hold)))
    if output.is_json:
        output.record({"id": hold.id, "fence": hold.fence, "outcome": outcome})
    elif outcome != LOST:
        output.say(f"{hold.id}  {outcome}")
    return Code.FAILED if outcome == LOST else Code.DONE


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield as many at a time as one request may name."""
    for start in range(0, len(items), LARGEST_BATCH):
        yield items[start : start + LARGEST_BATCH]


COMMANDS = {"claim": claim, "complete": complete, "fail": fail, "release": release, "extend": extend, "reap": reap}
