"""The program `tenure`: which commands there are, and how it ends.

A command is imported when it is used, so that the program starts quickly, whatever the others need.
"""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from tenure.cli.exit_codes import Exit, ended_by

DOCUMENTATION = """
Every command takes --json, for JSON lines, and --help, with examples.

\b
The store is the first of these that is there:
  --url URL             sqlite:///tenure.db, postgresql://db/app, redis://db/0
  --app MODULE:OBJECT   that of your Jobs
  $TENURE_URL
  ./tenure.db
`tenure config` says which it is, and why.

\b
Exit codes: 0 done, 1 the work failed, 2 misuse or the store is not
available, 3 nothing is due; 128 and the number of a signal that ended it.
"""

SECTIONS: dict[str, dict[str, str]] = {
    "Run": {
        "work": "Run the tasks of your Jobs, the rows of your tables.",
        "exec": "Run a command for each job: a queue for the shell.",
        "enqueue": "Store jobs.",
    },
    "See": {
        "stats": "Count the jobs by queue, type and state.",
        "jobs": "List, show, retry, cancel, delete and purge jobs.",
        "queues": "List, pause and resume queues.",
        "workers": "Show the workers, and what they hold.",
        "explain": "Say why a job is not running.",
    },
    "Claim by hand": {
        "claim": "Take due jobs; print the claims.",
        "complete": "End claims: the jobs are done.",
        "fail": "End claims: the jobs failed.",
        "release": "End claims: give the jobs back.",
        "extend": "Prolong claims.",
        "reap": "Take back claims of holders that are gone.",
    },
    "Set up": {
        "config": "Say which store is used, and why.",
        "migrate": "Bring the schema of a store or a table up to date.",
        "sql": "Print the statements that a store or a table runs.",
        "doctor": "Say what is wrong with a table, and what to do.",
        "demo": "See it work: processes race, one is killed.",
        "completion": "Print what completes commands in your shell.",
    },
}
"""The commands, by what they are for, each with what it says of itself."""

VARIABLE = "_TENURE_COMPLETE"
"""The environment variable by which a shell asks for completions."""

NAMES = [name for section in SECTIONS.values() for name in section]


class Program(click.Group):
    """Knows its commands by name, and imports only the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own
        return NAMES

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's own
        if cmd_name not in NAMES:
            return None
        module = import_module(f"tenure.cli.commands.{PLACES.get(cmd_name, cmd_name)}")
        command: click.Command = module.COMMANDS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in NAMES:
            from tenure.core.checks import nearest

            ctx.fail(f"there is no command {args[0]!r}{nearest(args[0], NAMES)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's own
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, text in commands.items()], col_max=14)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's own
        for part in DOCUMENTATION.strip().split("\n\n"):
            formatter.write_paragraph()
            formatter.write_text(part)


PLACES = dict.fromkeys(("claim", "complete", "fail", "release", "extend", "reap"), "claims") | {"exec": "execute"}
"""The modules of those commands that have not one of their own name."""


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    invoke_without_command=True,
)
@click.version_option(package_name="tenure", message="tenure %(version)s")
@click.pass_context
def program(context: click.Context) -> None:
    """Race-free job claiming: atomic, leased, fenced."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program, and end this process with its exit code."""
    _mend_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the program; return its exit code, whatever went wrong with the input, the store or the terminal."""
    try:
        with ended_by():
            if VARIABLE in os.environ:
                return _complete(os.environ[VARIABLE])
            # Not by `main` of click, which has its own way to end when the output is closed.
            with program.make_context("tenure", list(arguments)) as context:
                answer: Any = program.invoke(context)
            sys.stdout.flush()
            return int(answer or 0)
    except Exit as exc:
        return exc.code


def _complete(instruction: str) -> int:
    """Answer the shell, which asks what a word could become."""
    from click.shell_completion import shell_complete

    return shell_complete(program, {}, "tenure", VARIABLE, instruction)


def _mend_streams() -> None:
    """Have streams that can be written to, whatever was closed, and whatever characters they know."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free. Otherwise the next file to be opened has the number of a stream, for which
            # processes that are started take it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for the whole process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for the whole process
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        # With $PYTHONUNBUFFERED Python drops what a pipe does not take at once.
        sys.stdout = open(1, "w", encoding=sys.stdout.encoding, closefd=False)  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Written through to its buffer: some versions of Python, such as 3.11.7, lose some of what they hold back
            # if several threads write at once, and write what was in memory instead (gh-119506).
            stream.reconfigure(errors="replace", write_through=True)
