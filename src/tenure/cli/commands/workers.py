"""`tenure workers`."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.json_output import format_timestamp, to_record
from tenure.cli.output import CommandOutput, with_output
from tenure.cli.store_options import StoreTarget, with_store_options
from tenure.core.durations import format_duration
from tenure.core.job import State

if TYPE_CHECKING:
    from tenure.core.job import Job
    from tenure.core.operations import WorkerInfo

BLOCKED_AFTER = 5.0
"""Seconds after which a blocked worker is marked."""


@click.command(short_help="List workers and the jobs that they hold.")
@with_store_options
@with_output
def workers(store_target: StoreTarget, output: CommandOutput) -> None:
    """List the live workers and the jobs that they hold.

    Then list holders without a heartbeat: clients that claimed jobs by hand, and workers that may be dead.

    \b
    Examples:
      tenure workers
      tenure workers --json
    """
    with store_target.jobs() as store:
        known = store.workers()
        held: defaultdict[str, list[Job]] = defaultdict(list)
        for job in store.find(state=State.RUNNING, newest_first=False):
            held[job.worker or ""].append(job)
    if output.is_json:
        for worker in known:
            output.print_record({**to_record(worker), "holds": _records(held.pop(worker.name, []))})
        for name, jobs in sorted(held.items()):
            output.print_record({"name": name, "beat_at": None, "holds": _records(jobs)})
        return
    now = datetime.now(UTC)
    if not known:
        output.print_text("no live workers")
    for worker in known:
        for line in _format_worker(worker, held.pop(worker.name, []), now):
            output.print_text(line)
    for name, jobs in sorted(held.items()):
        output.print_text(f"{name}  no heartbeat (claimed by hand, or dead)")
        for job in jobs:
            output.print_text(_format_held_job(job, now))


def _format_worker(worker: "WorkerInfo", jobs: "Sequence[Job]", now: datetime) -> list[str]:
    from tenure.cli import formatting

    queues = "every queue" if worker.queues is None else f"the queues {', '.join(worker.queues)}"
    types = "every type" if worker.types is None else ", ".join(worker.types)
    blocked = f", blocked for {format_duration(worker.quiet_for)}" if worker.quiet_for > BLOCKED_AFTER else ""
    heartbeat = f"last heartbeat {formatting.format_relative(worker.beat_at, now)}"
    return [
        worker.name,
        f"  on {worker.host}, pid {worker.pid}, tenure {worker.version}",
        f"  started {formatting.format_relative(worker.started_at, now)}, {heartbeat}{blocked}",
        "  stopping: claims no more jobs" if worker.is_stopping else f"  runs {types} from {queues}",
        f"  holds {len(jobs):,}" + ("" if worker.is_stopping else f", runs up to {worker.concurrency:,} at a time"),
        *(_format_held_job(job, now) for job in jobs),
    ]


def _format_held_job(job: "Job", now: datetime) -> str:
    from tenure.cli import formatting

    since = format_duration((now - job.started_at).total_seconds()) if job.started_at else "?"
    until = f", lease expires {formatting.format_relative(job.leased_until, now)}" if job.leased_until else ""
    return f"    {job.id}  {job.type}, for {since}, fence {job.fence}{until}"


def _records(jobs: "Sequence[Job]") -> list[dict[str, Any]]:
    return [
        {
            "id": job.id,
            "type": job.type,
            "queue": job.queue,
            "fence": job.fence,
            "attempt": job.attempts,
            "started_at": format_timestamp(job.started_at) if job.started_at else None,
            "leased_until": format_timestamp(job.leased_until) if job.leased_until else None,
        }
        for job in jobs
    ]


COMMANDS = {"workers": workers}
