"""`tenure workers`."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.json_output import moment, record_of
from tenure.cli.output import Output, with_output
from tenure.cli.store_options import Place, with_place
from tenure.core.durations import shown_duration
from tenure.core.job import State

if TYPE_CHECKING:
    from tenure.core.job import Job
    from tenure.core.operations import Worker

QUIET = 5.0
"""Seconds from which on a worker that stands still is marked."""


@click.command(short_help="Show the workers, and what they hold.")
@with_place
@with_output
def workers(place: Place, output: Output) -> None:
    """Show the workers that give signs of life, and what each holds since when.

    Below them, holders that give none: claims by hand, and workers that may be dead.

    \b
    Examples:
      tenure workers
      tenure workers --json
    """
    with place.jobs() as store:
        known = store.workers()
        held: defaultdict[str, list[Job]] = defaultdict(list)
        for job in store.find(state=State.RUNNING, newest_first=False):
            held[job.worker or ""].append(job)
    if output.is_json:
        for worker in known:
            output.record({**record_of(worker), "holds": _records(held.pop(worker.name, []))})
        for name, jobs in sorted(held.items()):
            output.record({"name": name, "beat_at": None, "holds": _records(jobs)})
        return
    now = datetime.now(UTC)
    if not known:
        output.say("no worker gives a sign of life")
    for worker in known:
        for line in _lines(worker, held.pop(worker.name, []), now):
            output.say(line)
    for name, jobs in sorted(held.items()):
        output.say(f"{name}  gives no sign of life: a claim by hand, or dead")
        for job in jobs:
            output.say(_held(job, now))


def _lines(worker: "Worker", jobs: "Sequence[Job]", now: datetime) -> list[str]:
    from tenure.cli import formatting as words

    queues = "every queue" if worker.queues is None else f"the queues {', '.join(worker.queues)}"
    types = "every type" if worker.types is None else ", ".join(worker.types)
    quiet = f", stands still for {shown_duration(worker.quiet_for)}" if worker.quiet_for > QUIET else ""
    return [
        worker.name,
        f"  on {worker.host}, pid {worker.pid}, tenure {worker.version}",
        f"  started {words.ago(worker.started_at, now)}, last beat {words.ago(worker.beat_at, now)}{quiet}",
        "  stops: it takes no more" if worker.is_stopping else f"  takes {types} from {queues}",
        f"  holds {len(jobs):,}" + ("" if worker.is_stopping else f", runs up to {worker.concurrency:,} at a time"),
        *(_held(job, now) for job in jobs),
    ]


def _held(job: "Job", now: datetime) -> str:
    from tenure.cli import formatting as words

    since = shown_duration((now - job.started_at).total_seconds()) if job.started_at else "?"
    until = f", lease ends {words.ago(job.leased_until, now)}" if job.leased_until else ""
    return f"    {job.id}  {job.type}, for {since}, fence {job.fence}{until}"


def _records(jobs: "Sequence[Job]") -> list[dict[str, Any]]:
    return [
        {
            "id": job.id,
            "type": job.type,
            "queue": job.queue,
            "fence": job.fence,
            "attempt": job.attempts,
            "started_at": moment(job.started_at) if job.started_at else None,
            "leased_until": moment(job.leased_until) if job.leased_until else None,
        }
        for job in jobs
    ]


COMMANDS = {"workers": workers}
