"""`tenure work`: a worker in this process, or several under a supervisor."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.cli.exit_codes import ExitCode
from tenure.cli.output import CommandOutput, with_output
from tenure.cli.param_types import duration, size, target
from tenure.core import checks

if TYPE_CHECKING:
    from tenure.client.worker_options import WorkerOptions
    from tenure.worker.summary import Summary

R = TypeVar("R")

MAX_PROCESSES = 256


def parse_processes(value: str) -> int:
    """Parse a number of processes; `auto` means one for each CPU."""
    if value == "auto":
        return os.cpu_count() or 1
    if not value.isdecimal() or not 1 <= int(value) <= MAX_PROCESSES:
        raise click.BadParameter(f"invalid number of processes {value!r}: use 1 to {MAX_PROCESSES}, or auto")
    return int(value)


def _with_worker_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the worker options to a command, which receives them as `options`, named as in `Jobs.work`."""

    @click.option("--queue", "-q", "queues", multiple=True, metavar="NAME", help="Only jobs of this queue; repeatable.")
    @click.option("--type", "-t", "types", multiple=True, metavar="NAME", help="Only this task; repeatable.")
    @click.option(
        "--concurrency",
        "-c",
        type=int,
        metavar="N",
        default=10,
        show_default=True,
        help="Maximum number of runs at a time.",
    )
    @click.option(
        "--lease",
        type=duration,
        default="60s",
        show_default=True,
        help="Lease of a job; a Table sets its own lease.",
    )
    @click.option("--grace", type=duration, default="30s", show_default=True, help="Time for runs to end at a stop.")
    @click.option("--drain", is_flag=True, help="Exit when nothing is due.")
    @click.option("--name", metavar="NAME", help="Prefix of the worker names.")
    @wraps(command)
    def call(*arguments: Any, **given: Any) -> R:
        names = ("queues", "types", "concurrency", "lease", "grace", "drain", "name")
        options = {name: value for name in names if (value := given.pop(name)) not in {None, ()}}
        return command(*arguments, options=options, **given)

    return call


@click.command(short_help="Run a worker for your Jobs and Tables.")
@click.argument("targets", type=target, metavar="MODULE:OBJECT...", nargs=-1, required=True)
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import a module with tasks; repeatable.")
@_with_worker_options
@click.option(
    "--processes",
    "-p",
    type=parse_processes,
    metavar="N",
    help="Run N workers under a supervisor; auto: one for each CPU.",
)
@click.option("--max-jobs", type=click.IntRange(min=1), metavar="N", help="Replace a process after about N runs.")
@click.option("--max-memory", type=size, help="Replace a process that uses more memory: 512M, 2G.")
@click.option("--reload", is_flag=True, help="Replace all processes when a Python file changes; for development.")
@click.option("--health", metavar="[HOST:]PORT", help="Serve /livez, /readyz and /metrics.")
@click.option("--until-eof", is_flag=True, help="Stop when the standard input closes, as when the parent process dies.")
@click.option("--url", metavar="URL", help="Replace the store of the Jobs.")
@click.option(
    "--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True, help="Log format."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Log level.",
)
@with_output
def work(
    output: CommandOutput,
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
    """Run a worker until SIGTERM or Ctrl-C. A second signal stops the worker without waiting for running jobs.

    MODULE:OBJECT is a Jobs, such as app:jobs, or a Table with a handler; the module is searched in the current folder
    first. The worker runs the tasks of all imported modules: MODULE, the modules that it imports, and each --import.
    --concurrency is the limit for all sources together. --queue, --type and --lease apply to jobs, not to a Table.

    With --processes, --max-jobs, --max-memory or --reload, a supervisor runs each worker in a process of its own. When
    a process dies, its started jobs count a crash at once, its buffered jobs are released, and the supervisor starts
    another process.

    With --drain the exit code is 0 if all runs were completed, 1 if not, 3 if nothing was due.

    \b
    Examples:
      tenure work app:jobs
      tenure work app:jobs --processes 4 --concurrency 20 --health 9000
      tenure work app:jobs --import app.mail --import app.reports -q mail
      tenure work app:jobs app:orders
      tenure work app:jobs --drain && echo all done
      tenure work app:jobs --reload --log-level debug
    """
    from tenure.cli.work import WorkConfig, reap_command, run, supervise, worker_command
    from tenure.supervisor import ExitReason, SupervisorConfig, take_supervisor_link

    parent = take_supervisor_link()
    config = WorkConfig(
        targets=targets, imports=imports, url=url, options=options, log_format=log_format, log_level=log_level
    )
    config.configure_logging()
    if parent is not None:
        return _exit_code(run(config, parent=parent), is_drain=config.is_drain)
    if not (processes or max_jobs or max_memory or reload):
        summary, code = run(config, health=health, until_eof=until_eof), None
    else:
        result = supervise(
            SupervisorConfig(
                command=worker_command(config),
                reap_command=reap_command(config),
                processes=processes or 1,
                grace=checks.seconds("grace", options["grace"]),
                drain=config.is_drain,
                max_jobs=max_jobs,
                max_memory=max_memory,
                reload=[Path.cwd()] if reload else None,
            ),
            health=health,
            until_eof=until_eof,
        )
        summary = result.summary
        code = ExitCode.MISUSE if result.reason in {ExitReason.START_REJECTED, ExitReason.NEVER_READY} else None
        if code is None and config.is_drain and result.deaths:
            # The runs of a process that died are in no summary, and were not completed there.
            code = ExitCode.FAILED
    if output.is_json:
        output.print_record(summary.counts())
    return _exit_code(summary, is_drain=config.is_drain) if code is None else code


def _exit_code(summary: "Summary", *, is_drain: bool) -> int:
    """Return the exit code: success for a stopped worker; for a drained worker, by its summary."""
    if not is_drain or summary.completed == summary.total > 0:
        return ExitCode.DONE
    return ExitCode.FAILED if summary.total > summary.released else ExitCode.NOTHING_DUE


COMMANDS = {"work": work}
