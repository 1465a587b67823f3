"""The program `tenure`: commands, start and exit code.

A command is imported when it is used: the program starts quickly even if other commands need slow imports.
"""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from tenure.cli.exit_codes import Exit, exit_on_errors

HELP_EPILOG = """
Every command takes --json, for JSON lines, and --help, with examples.

\b
The store is the first of these that is set:
  --url URL             sqlite:///tenure.db, postgresql://db/app, redis://db/0
  --app MODULE:OBJECT   the store of your Jobs
  $TENURE_URL
  ./tenure.db           the default
`tenure config` shows the store, and where it is set.

\b
Exit codes: 0 success, 1 failure, 2 wrong usage or store unavailable,
3 nothing due, 128 + n ended by signal n.
"""

SECTIONS: dict[str, dict[str, str]] = {
    "Run": {
        "work": "Run a worker for your Jobs and Tables.",
        "exec": "Run a shell command for each job.",
        "enqueue": "Enqueue jobs.",
    },
    "Inspect and manage": {
        "stats": "Count jobs by queue, type and state.",
        "jobs": "List, show, retry, cancel, delete and purge jobs.",
        "queues": "List, pause and resume queues.",
        "workers": "List workers and the jobs that they hold.",
        "explain": "Explain why a job is not running.",
    },
    "Claim by hand": {
        "claim": "Claim due jobs and print the claims.",
        "complete": "Complete claimed jobs.",
        "fail": "Record a failure of claimed jobs.",
        "release": "Return claimed jobs to their queue.",
        "extend": "Extend the lease of claims.",
        "reap": "Reap expired claims, or all claims of a dead worker.",
    },
    "Set up": {
        "config": "Show which store is used, and why.",
        "migrate": "Create or update the schema of a store or a Table.",
        "sql": "Print the SQL of a store or a Table.",
        "doctor": "Check a Table or a store for problems.",
        "demo": "Watch workers race while one is killed.",
        "completion": "Print the completion script for your shell.",
    },
}
"""The commands by purpose, each with its short help."""

COMPLETION_VARIABLE = "_TENURE_COMPLETE"
"""Environment variable in which a shell requests completions."""

COMMAND_NAMES = [name for section in SECTIONS.values() for name in section]


class Program(click.Group):
    """Knows the commands by name and imports only the requested command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own
        return COMMAND_NAMES

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's own
        if cmd_name not in COMMAND_NAMES:
            return None
        module = import_module(f"tenure.cli.commands.{COMMAND_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.COMMANDS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMAND_NAMES:
            from tenure.core.checks import did_you_mean

            ctx.fail(f"unknown command {args[0]!r}{did_you_mean(args[0], COMMAND_NAMES)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's own
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, text in commands.items()], col_max=14)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's own
        for part in HELP_EPILOG.strip().split("\n\n"):
            formatter.write_paragraph()
            formatter.write_text(part)


COMMAND_MODULES = dict.fromkeys(("claim", "complete", "fail", "release", "extend", "reap"), "claims") | {
    "exec": "execute"
}
"""Modules of the commands whose module has another name."""


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    invoke_without_command=True,
)
@click.version_option(package_name="tenure", message="tenure %(version)s")
@click.pass_context
def program(context: click.Context) -> None:
    """A job queue with atomic, leased and fenced claims."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit the process with its exit code."""
    _repair_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the program. Return its exit code, also for errors of the input, the store or the terminal."""
    try:
        with exit_on_errors():
            if COMPLETION_VARIABLE in os.environ:
                return _complete(os.environ[COMPLETION_VARIABLE])
            # Not click's `main`, which exits in its own way when the output is closed.
            with program.make_context("tenure", list(arguments)) as context:
                answer: Any = program.invoke(context)
            sys.stdout.flush()
            return int(answer or 0)
    except Exit as exc:
        return exc.code


def _complete(instruction: str) -> int:
    """Print completions for the shell."""
    from click.shell_completion import shell_complete

    return shell_complete(program, {}, "tenure", COMPLETION_VARIABLE, instruction)


def _repair_streams() -> None:
    """Make the standard streams writable, even if they were closed or their encoding lacks characters."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # `os.open` returns the lowest free number. Otherwise the next opened file would get the number of a
            # standard stream, and child processes would use that file as the stream.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for the whole process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for the whole process
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        # With $PYTHONUNBUFFERED, Python drops output that a full pipe does not accept at once.
        sys.stdout = open(1, "w", encoding=sys.stdout.encoding, closefd=False)  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Write through to the buffer: some versions of Python, such as 3.11.7, lose pending text if several threads
            # write at once, and write stale memory instead (gh-119506).
            stream.reconfigure(errors="replace", write_through=True)
