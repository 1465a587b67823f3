"""The output of the demo: the story as lines, a live view below in a terminal, and the report at the end.

Without a terminal the output is plain lines, in ASCII if the encoding requires it.
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

from tenure.cli.demo.report import ReportLine

COLOURS = {"works": "green", "killed": "red", "frozen": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker in the live view: its condition, and the number of jobs that it holds by the store."""

    name: str
    state: str
    holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceStatus:
    """The content of the live view."""

    completed: int
    number: int
    workers: Sequence[WorkerRow]


class Screen:
    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False)
        self._is_ascii = self._console.options.ascii_only
        self._live: Live | None = None

    def print_line(self, text: str, style: str = "") -> None:
        # Output to a file or a pipe is not wrapped.
        self._console.print(text, style=style, soft_wrap=not self._console.is_terminal)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Open the live view for `update` below the lines, if the terminal supports it; remove it at the end."""
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            yield
            return
        # Only `update` draws: the refresh thread of rich would survive an interrupt.
        with Live(console=self._console, auto_refresh=False, transient=True, redirect_stderr=False) as self._live:
            yield
        self._live = None

    def update(self, status: RaceStatus) -> None:
        if self._live is not None:
            self._live.update(self._render(status), refresh=True)

    def print_report(self, lines: Sequence[ReportLine]) -> None:
        """Print the report. A mark shows whether a line holds."""
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column()
        table.add_column(style="dim")
        table.add_column(justify="right")
        for line in lines:
            table.add_row(self._mark(line), line.text, line.source, f"{line.number:,}")
        self._console.print(Padding(table, (0, 0, 0, 2), expand=False))

    def _mark(self, line: ReportLine) -> Text:
        if self._is_ascii:
            return Text("ok", "green") if line.holds else Text("NOT", "bold red")
        return Text("✓", "green") if line.holds else Text("✗", "bold red")

    def _render(self, status: RaceStatus) -> RenderableType:
        square = "#" if self._is_ascii else "■"
        workers = Table.grid(padding=(0, 2))
        for row in status.workers:
            colour = COLOURS[row.state]
            held = Text(square * row.holds, colour, no_wrap=True, overflow="crop")
            workers.add_row(row.name, Text(row.state, colour), held)
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=status.number or 1, completed=status.completed, width=48, complete_style="green"),
            f"{status.completed:,} of {status.number:,} completed",
        )
        return Padding(Group("", workers, "", bar), (0, 0, 0, 2))


class JsonScreen(Screen):
    """Output for programs: only the report, one JSON object a line."""

    def print_line(self, text: str, style: str = "") -> None: ...

    @contextmanager
    def live(self) -> Iterator[None]:
        yield

    def print_report(self, lines: Sequence[ReportLine]) -> None:
        for line in lines:
            print(json.dumps(asdict(line)))
