"""Start-up cost of commands: CPU time in excess of bare Python.

CPU time instead of wall time: other programs on the machine disturb it less.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console

from benchmarks.machine import Machine, new_folder
from benchmarks.readings import Result
from benchmarks.report import WIDTH, new_table

BARE = "bare Python"
COMMANDS = {
    BARE: ["-c", "pass"],
    "import click": ["-c", "import click"],
    "tenure --help": ["-m", "tenure.cli", "--help"],
    "tenure jobs list --help": ["-m", "tenure.cli", "jobs", "list", "--help"],
    "tenure stats --json": ["-m", "tenure.cli", "stats", "--json"],
    "tenure jobs list": ["-m", "tenure.cli", "jobs", "list"],
    "huey_consumer --help": ["-m", "huey.bin.huey_consumer", "--help"],
}


@dataclass(slots=True, kw_only=True)
class StartupResult(Result):
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COMMANDS})
    """CPU milliseconds of each command, in the order of the rounds."""

    def beyond(self, name: str) -> list[float]:
        """Return the excess of a command over bare Python in the same round."""
        return [mine - bare for mine, bare in zip(self.milliseconds[name], self.milliseconds[BARE], strict=True)]


def measure(*, rounds: int, folder: Path, say: Callable[[str], None]) -> StartupResult:
    """Start all commands sequentially in every round."""
    result = StartupResult(benchmark="startup", machine=Machine.here(folder))
    with new_folder(folder) as place:
        started(["-m", "tenure.cli", "migrate"], place)
        for each in COMMANDS.values():
            started(each, place)
        for number in range(1, rounds + 1):
            say(f"round {number} of {rounds}")
            for name, command in COMMANDS.items():
                result.milliseconds[name].append(started(command, place))
    return result


def started(command: list[str], folder: Path) -> float:
    """Run a command in a new process; return its CPU milliseconds."""
    # As for an installed program: compiled, and without settings that slow Python down.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.Popen(  # noqa: S603 - only commands of this file
        [sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return 1_000 * (used.ru_utime + used.ru_stime)


def show(result: StartupResult) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(f"\n[bold]{result.benchmark}[/bold]: CPU milliseconds; beyond: excess over bare Python")
    console.print(f"{result.machine}\n", style="dim")
    table = new_table()
    for head in ("median", "beyond", "least", "most"):
        table.add_column(head, justify="right")
    for name, all in result.milliseconds.items():
        beyond = result.beyond(name)
        table.add_row(name, f"{median(all):.0f}", *(f"{figure(beyond):.0f}" for figure in (median, min, max)))
    console.print(table)
