"""What a command prints: JSON lines for programs, tables and sentences for people.

Results go to the standard output, all else to the standard error. What goes into a pipe or a file is not cut to the
width of a terminal, and has no colours.
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

WIDEST = 10_000
"""Columns of what is no terminal: nothing is cut."""


GAP, NARROWEST = 2, 4
"""Between two columns, and the least that is left of one."""


class Output:
    """Prints in one of two ways. With JSON each result is one line, and people are told nothing."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json

    def record(self, record: Mapping[str, Any]) -> None:
        """Print a result for programs."""
        # Everything but ASCII is escaped: it is the same line in whatever encoding.
        click.echo(json.dumps(record, separators=(",", ":")))

    def say(self, text: str, style: str = "") -> None:
        """Print a result for people."""
        if not self.is_json:
            console = self.console()
            console.print(printable(text), style=style, soft_wrap=not console.is_terminal)

    def note(self, text: str) -> None:
        """Tell people something that is no result."""
        if not self.is_json:
            click.echo(text, err=True)

    def show(self, renderable: "RenderableType") -> None:
        """Print something drawn."""
        self.console().print(renderable)

    def table(
        self, columns: Sequence[str], rows: "Sequence[Sequence[str | Text]]", below: Sequence[str] | None = None
    ) -> None:
        """Print a table, cut to the terminal, but for its first column. A head that ends in # is one of numbers.

        What is `below` a row stands in a line of its own, if there is something.
        """
        from rich.text import Text

        console = self.console()
        heads = [Text(head.removesuffix("#"), "bold") for head in columns]
        cells = [[Text(printable(each)) if isinstance(each, str) else each for each in row] for row in rows]
        widest = [max(cell.cell_len for cell in column) for column in zip(heads, *cells, strict=True)]
        widths = fitting(widest, console.width)
        if not console.is_terminal:
            # Not by rich, which takes a minute for a hundred thousand rows.
            click.echo("\n".join(_line(row, widths, columns) for row in [heads, *cells]))
            return
        for number, row in enumerate([heads, *cells]):
            for head, cell, width in zip(columns, row, widths, strict=True):
                cell.truncate(width, overflow="ellipsis")
                cell.align("right" if head.endswith("#") else "left", width)
            line = Text(" " * GAP).join(row)
            line.rstrip()
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
            if below is not None and number and (text := below[number - 1]):
                console.print(Text(f"    {printable(text)}", "dim"), no_wrap=True, overflow="ellipsis")

    def console(self, *, is_error: bool = False) -> "Console":
        stream = sys.stderr if is_error else sys.stdout
        is_terminal = stream.isatty()
        return _console_class()(
            file=stream,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=False,
            width=None if is_terminal else WIDEST,
        )


def _console_class() -> "type[Console]":
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            """Go on as with any other output: rich would end the program here, with a code of its own."""
            raise BrokenPipeError

    return Terminal


def _line(row: "Sequence[str | Text]", widths: Sequence[int], heads: Sequence[str]) -> str:
    from rich.cells import cell_len

    texts = [str(each) for each in row]
    spaces = [" " * (width - cell_len(text)) for text, width in zip(texts, widths, strict=True)]
    cells = zip(heads, texts, spaces, strict=True)
    return (" " * GAP).join(room + text if head.endswith("#") else text + room for head, text, room in cells).rstrip()


def printable(text: str) -> str:
    """Return text that cannot command the terminal: what others wrote, such as an error, may contain anything."""
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def coloured(text: str, style: "str | Style") -> "Text":
    from rich.text import Text

    return Text(text, style)


def with_output(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the option --json; it gets an `output`."""

    @click.option("--json", "is_json", is_flag=True, help="Print JSON lines, for programs.")
    @wraps(command)
    def call(*arguments: Any, is_json: bool, **options: Any) -> R:
        return command(*arguments, output=Output(is_json=is_json), **options)

    return call


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns in this room: the widest give way first, but never the first column."""
    found = list(widths)
    while sum(found) + GAP * (len(found) - 1) > room and max(found[1:], default=0) > NARROWEST:
        found[found.index(max(found[1:]), 1)] -= 1
    return found
