"""Generate the manual of the command line: `python -m tenure.cli.reference`.

The manual consists of the help texts of the commands, so it always matches --help.
"""

import inspect
import re
from collections.abc import Iterator

import click

from tenure.cli.program import HELP_EPILOG, SECTIONS, program

HEAD = """\
# Commands

<!-- Generated from the commands by `python -m tenure.cli.reference > docs/commands.md`; a test compares them. -->

`tenure` is the command line of the library, for shells, cron, operators and process managers. This page is the
reference; [the shell guide](shell.md) and [the worker](worker.md) show how to use the commands.
"""


def reference() -> str:
    """Return the manual, as Markdown."""
    context = click.Context(program, info_name="tenure", max_content_width=80, terminal_width=80)
    parts = [HEAD, *_paragraphs(HELP_EPILOG), "## Overview\n"]
    for title, commands in SECTIONS.items():
        parts.append(f"**{title}**\n")
        parts.append(
            "\n".join(f"- [`tenure {name}`](#tenure-{name}): {text}" for name, text in commands.items()) + "\n"
        )
    for commands in SECTIONS.values():
        for name in commands:
            command = program.get_command(context, name)
            if command is not None:
                parts += _section(command, context, name, depth=2)
    return "\n".join(parts)


def _section(command: click.Command, parent: click.Context, name: str, depth: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"{'#' * depth} {context.command_path}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```\n{usage}\n```\n"
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    own = [each for each in command.get_params(context) if isinstance(each, click.Option) and "--help" not in each.opts]
    options = [found for each in own if (found := each.get_help_record(context)) is not None]
    if options:
        yield "\n".join(f"- `{names}`: {text}" for names, text in options) + "\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            if inner is not None:
                yield from _section(inner, context, each, depth + 1)


def _paragraphs(help: str) -> Iterator[str]:
    """Yield the paragraphs of a help text. Paragraphs marked as not to be wrapped become blocks."""
    for part in re.split(r"\n\s*\n", help.strip()):
        if not part.startswith("\b"):
            yield " ".join(part.split()) + "\n"
            continue
        head, *lines = part.removeprefix("\b\n").splitlines()
        if not lines or not lines[0].startswith(" "):
            yield " ".join([head, *lines]) + "\n"
            continue
        block = [line for line in lines if line.startswith(" ")]
        rest = " ".join(line for line in lines if not line.startswith(" "))
        yield f"{head}\n\n```\n{inspect.cleandoc(chr(10).join(block))}\n```\n"
        if rest:
            yield f"{rest}\n"


if __name__ == "__main__":
    click.echo(reference(), nl=False)
