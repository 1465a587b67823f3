"""`tenure work`: a worker in this process, or several under a supervisor."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.cli.exit_codes import Code
from tenure.cli.output import Output, with_output
from tenure.cli.param_types import duration, size, target
from tenure.core import checks

if TYPE_CHECKING:
    from tenure.client.worker_options import WorkerOptions
    from tenure.worker.summary import Summary

R = TypeVar("R")

MOST_PROCESSES = 256


def number_of_processes(value: str) -> int:
    """Return a number of processes; `auto` is one for each processor."""
    if value == "auto":
        return os.cpu_count() or 1
    if not value.isdecimal() or not 1 <= int(value) <= MOST_PROCESSES:
        raise click.BadParameter(f"{value!r} is no number of processes; write 1 to {MOST_PROCESSES}, or auto")
    return int(value)


def _options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command what a worker can be told; it gets it as `options`, by the names of `Jobs.work`."""

    @click.option("--queue", "-q", "queues", multiple=True, metavar="NAME", help="Only of this queue; may be repeated.")
    @click.option("--type", "-t", "types", multiple=True, metavar="NAME", help="Only this task; may be repeated.")
    @click.option(
        "--concurrency", "-c", type=int, metavar="N", default=10, show_default=True, help="How many run at a time."
    )
    @click.option(
        "--lease",
        type=duration,
        default="60s",
        show_default=True,
        help="How long a job is held unless extended; a table has its own.",
    )
    @click.option("--grace", type=duration, default="30s", show_default=True, help="How long runs may take to end.")
    @click.option("--drain", is_flag=True, help="End when nothing is due.")
    @click.option("--name", metavar="NAME", help="Put before the name of each worker.")
    @wraps(command)
    def call(*arguments: Any, **given: Any) -> R:
        names = ("queues", "types", "concurrency", "lease", "grace", "drain", "name")
        options = {name: value for name in names if (value := given.pop(name)) not in {None, ()}}
        return command(*arguments, options=options, **given)

    return call


@click.command(short_help="Run the tasks of your Jobs, the rows of your tables.")
@click.argument("targets", type=target, metavar="MODULE:OBJECT...", nargs=-1, required=True)
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="A module with tasks; may be repeated.")
@_options
@click.option(
    "--processes",
    "-p",
    type=number_of_processes,
    metavar="N",
    help="So many workers, under a supervisor; auto: one a processor.",
)
@click.option("--max-jobs", type=click.IntRange(min=1), metavar="N", help="Replace a process after about so many runs.")
@click.option("--max-memory", type=size, help="Replace a process that uses more: 512M, 2G.")
@click.option("--reload", is_flag=True, help="Replace all when a Python file here changes; for development.")
@click.option("--health", metavar="[HOST:]PORT", help="Serve /livez, /readyz and /metrics there.")
@click.option("--until-eof", is_flag=True, help="Stop when the standard input ends: with whoever started this.")
@click.option("--url", metavar="URL", help="Another store than that of the Jobs.")
@click.option(
    "--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True, help="For whom."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="How much.",
)
@with_output
def work(
    output: Output,
    options: "WorkerOptions",
    targets: tuple[str, ...],
    imports: tuple[str, ...],
    url: str | None,
    health: str | None,
    log_format: str,
    log_level: str,
    processes: int | None,
    max_jobs: int | None,
    max_memory: int | None,
    *,
    reload: bool,
    until_eof: bool,
) -> int:
    """Run the tasks of your Jobs, until SIGTERM or Ctrl-C; a second one does not wait for what runs.

    MODULE:OBJECT is the Jobs, such as app:jobs, found from this folder. Its tasks are those of the modules that are
    imported with it, and of each --import. It may also be a Table with a handler, whose rows are then run. Of several,
    so many run at a time as --concurrency says, in all; --queue, --type and --lease are about jobs.

    With --processes, --max-jobs, --max-memory or --reload there is a supervisor: it starts the workers as processes of
    their own and watches over them. When one dies, what it had started counts as crashed at once, what it had only
    claimed is given back, and it is started again.

    With --drain the exit code is 0 if all that ran was completed, 1 if something was not, 3 if nothing was due.

    \b
    Examples:
      tenure work app:jobs
      tenure work app:jobs --processes 4 --concurrency 20 --health 9000
      tenure work app:jobs --import app.mail --import app.reports -q mail
      tenure work app:jobs app:orders
      tenure work app:jobs --drain && echo all done
      tenure work app:jobs --reload --log-level debug
    """
    from tenure.cli import work as working
    from tenure.supervisor import How, Plan, supervised

    parent = supervised()
    work = working.Work(
        targets=targets, imports=imports, url=url, options=options, log_format=log_format, log_level=log_level
    )
    work.log()
    if parent is not None:
        return _code(working.run(work, parent=parent), is_drain=work.is_drain)
    if not (processes or max_jobs or max_memory or reload):
        summary, code = working.run(work, health=health, until_eof=until_eof), None
    else:
        ending = working.supervise(
            Plan(
                command=working.command_of(work),
                reap_command=working.reap_command_of(work),
                processes=processes or 1,
                grace=checks.seconds("grace", options["grace"]),
                drain=work.is_drain,
                max_jobs=max_jobs,
                max_memory=max_memory,
                reload=[Path.cwd()] if reload else None,
            ),
            health=health,
            until_eof=until_eof,
        )
        summary = ending.summary
        code = Code.MISUSE if ending.how in {How.MISUSED, How.GAVE_UP} else None
        if code is None and work.is_drain and ending.deaths:
            # What ran in a process that died is in no summary, and was not completed there.
            code = Code.FAILED
    if output.is_json:
        output.record(summary.counts())
    return _code(summary, is_drain=work.is_drain) if code is None else code


def _code(summary: "Summary", *, is_drain: bool) -> int:
    """Return how a worker ended: one that was stopped, well; one that drained, by what it found and did."""
    if not is_drain or summary.completed == summary.total > 0:
        return Code.DONE
    return Code.FAILED if summary.total > summary.released else Code.NOTHING_DUE


COMMANDS = {"work": work}
