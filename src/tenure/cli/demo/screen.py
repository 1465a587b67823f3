"""What is seen: the story as lines, a live view under them in a terminal, and the table at the end.

Elsewhere than in a terminal there are only plain lines, and only ASCII if the encoding has no more.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tenure.cli.demo.report import Line

COLOURS = {"works": "green", "killed": "red", "frozen": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One worker at a glance: what became of it, and how many jobs it holds by what the store says."""

    name: str
    fate: str
    holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """The race at one moment."""

    completed: int
    number: int
    workers: Sequence[Row]


class Screen:
    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False)
        self._is_ascii = self._console.options.ascii_only
        self._live: Live | None = None

    def say(self, text: str, style: str = "") -> None:
        # What goes into a file or a pipe is not wrapped: a line stays a line.
        self._console.print(text, style=style, soft_wrap=not self._console.is_terminal)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Have a place for `show` under the lines, which is gone afterwards; only in a terminal that can do it."""
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            yield
            return
        # Drawn by `show` alone: a thread beside this would outlive an interruption.
        with Live(console=self._console, auto_refresh=False, transient=True, redirect_stderr=False) as self._live:
            yield
        self._live = None

    def show(self, glance: Glance) -> None:
        if self._live is not None:
            self._live.update(self._drawn(glance), refresh=True)

    def tabulate(self, lines: Sequence[Line]) -> None:
        """Show what was found, each line with whether it is as promised."""
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column()
        table.add_column(style="dim")
        table.add_column(justify="right")
        for line in lines:
            table.add_row(self._mark(line), line.text, line.source, f"{line.number:,}")
        self._console.print(Padding(table, (0, 0, 0, 2), expand=False))

    def _mark(self, line: Line) -> Text:
        if self._is_ascii:
            return Text("ok", "green") if line.holds else Text("NOT", "bold red")
        return Text("✓", "green") if line.holds else Text("✗", "bold red")

    def _drawn(self, glance: Glance) -> RenderableType:
        square = "#" if self._is_ascii else "■"
        workers = Table.grid(padding=(0, 2))
        for row in glance.workers:
            colour = COLOURS[row.fate]
            held = Text(square * row.holds, colour, no_wrap=True, overflow="crop")
            workers.add_row(row.name, Text(row.fate, colour), held)
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=glance.number or 1, completed=glance.completed, width=48, complete_style="green"),
            f"{glance.completed:,} of {glance.number:,} completed",
        )
        return Padding(Group("", workers, "", bar), (0, 0, 0, 2))


class Records(Screen):
    """For programs: nothing of the story, and each line that was found as one of JSON."""

    def say(self, text: str, style: str = "") -> None: ...

    @contextmanager
    def live(self) -> Iterator[None]:
        yield

    def tabulate(self, lines: Sequence[Line]) -> None:
        for line in lines:
            print(json.dumps(asdict(line)))
