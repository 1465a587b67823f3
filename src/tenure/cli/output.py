"""The output of a command: JSON lines for programs, tables and sentences for people.

Results go to the standard output, everything else to the standard error. Output to a pipe or a file has no colours and
is not cut to the terminal width.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.style import Style
    from rich.text import Text

R = TypeVar("R")

UNLIMITED_WIDTH = 10_000
"""Width of an output that is not a terminal: nothing is cut."""


COLUMN_GAP, MIN_COLUMN_WIDTH = 2, 4
"""The space between two columns, and the narrowest that a column is cut to."""


class CommandOutput:
    """Prints either JSON, one line for each result, or text for people."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json

    def print_record(self, record: Mapping[str, Any]) -> None:
        """Print a result for programs."""
        # Escaped to ASCII, so that the line is the same in every encoding.
        click.echo(json.dumps(record, separators=(",", ":")))

    def print_text(self, text: str, style: str = "") -> None:
        """Print a result for people."""
        if not self.is_json:
            console = self.console()
            console.print(escape_control_characters(text), style=style, soft_wrap=not console.is_terminal)

    def print_note(self, text: str) -> None:
        """Print a remark for people, to the standard error."""
        if not self.is_json:
            click.echo(text, err=True)

    def print_renderable(self, renderable: "RenderableType") -> None:
        """Print a renderable of rich."""
        self.console().print(renderable)

    def print_table(
        self, columns: Sequence[str], rows: "Sequence[Sequence[str | Text]]", below: Sequence[str] | None = None
    ) -> None:
        """Print a table, cut to the terminal width except for the first column.

        A column whose head ends in # holds numbers and is right-aligned. A text in `below` is printed on a line of its
        own under its row, unless the text is empty.
        """
        from rich.text import Text

        console = self.console()
        heads = [Text(head.removesuffix("#"), "bold") for head in columns]
        cells = [
            [Text(escape_control_characters(each)) if isinstance(each, str) else each for each in row] for row in rows
        ]
        widest = [max(cell.cell_len for cell in column) for column in zip(heads, *cells, strict=True)]
        widths = fit_widths(widest, console.width)
        if not console.is_terminal:
            # Without rich, which takes a minute for a hundred thousand rows.
            click.echo("\n".join(_line(row, widths, columns) for row in [heads, *cells]))
            return
        for number, row in enumerate([heads, *cells]):
            for head, cell, width in zip(columns, row, widths, strict=True):
                cell.truncate(width, overflow="ellipsis")
                cell.align("right" if head.endswith("#") else "left", width)
            line = Text(" " * COLUMN_GAP).join(row)
            line.rstrip()
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
            if below is not None and number and (text := below[number - 1]):
                console.print(Text(f"    {escape_control_characters(text)}", "dim"), no_wrap=True, overflow="ellipsis")

    def console(self, *, is_error: bool = False) -> "Console":
        stream = sys.stderr if is_error else sys.stdout
        is_terminal = stream.isatty()
        return _console_class()(
            file=stream,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=False,
            width=None if is_terminal else UNLIMITED_WIDTH,
        )


def _console_class() -> "type[Console]":
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            """Raise, as for any other output. By default rich exits the program with its own code."""
            raise BrokenPipeError

    return Terminal


def _line(row: "Sequence[str | Text]", widths: Sequence[int], heads: Sequence[str]) -> str:
    from rich.cells import cell_len

    texts = [str(each) for each in row]
    spaces = [" " * (width - cell_len(text)) for text, width in zip(texts, widths, strict=True)]
    cells = zip(heads, texts, spaces, strict=True)
    return (
        (" " * COLUMN_GAP)
        .join(room + text if head.endswith("#") else text + room for head, text, room in cells)
        .rstrip()
    )


def escape_control_characters(text: str) -> str:
    """Escape control characters. Stored text, such as an error, may contain terminal commands."""
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def styled_text(text: str, style: "str | Style") -> "Text":
    from rich.text import Text

    return Text(text, style)


def with_output(command: Callable[..., R]) -> Callable[..., R]:
    """Add the option --json to a command, which receives an `output`."""

    @click.option("--json", "is_json", is_flag=True, help="Print JSON lines.")
    @wraps(command)
    def call(*arguments: Any, is_json: bool, **options: Any) -> R:
        return command(*arguments, output=CommandOutput(is_json=is_json), **options)

    return call


def fit_widths(widths: Sequence[int], room: int) -> list[int]:
    """Return column widths that fit into `room`. The widest columns shrink first; the first column never shrinks."""
    found = list(widths)
    while sum(found) + COLUMN_GAP * (len(found) - 1) > room and max(found[1:], default=0) > MIN_COLUMN_WIDTH:
        found[found.index(max(found[1:]), 1)] -= 1
    return found
