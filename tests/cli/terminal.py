"""Run the program as a process, in a folder with a store."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tenure
from tests.processes.stage import PATIENCE, until


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Program:
    """A running command, detached from our terminal, optionally with its own. The test kills it at the end."""

    def __init__(self, shell: "Terminal", number: int, command: tuple[str, ...], *, has_terminal: bool) -> None:
        self._keyboard: int | None = None
        terminal: int | None = None
        if has_terminal:
            self._keyboard, terminal = os.openpty()
            command = (sys.executable, "-c", IN_TERMINAL, *command)
        self._out, self._err = shell.folder / f"out-{number}", shell.folder / f"err-{number}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                command,
                cwd=shell.folder,
                env=shell.environment,
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        if terminal is not None:
            os.close(terminal)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def type(self, text: str) -> None:
        """Type text into the terminal of the command."""
        assert self._keyboard is not None
        os.write(self._keyboard, text.encode())

    def ended(self) -> Ran:
        """Wait for the command to end; return its result."""
        code = self._process.wait(PATIENCE)
        return Ran(code, self._out.read_text("utf-8"), self._err.read_text("utf-8"))

    def out(self) -> str:
        """Return the standard output so far."""
        return self._out.read_text("utf-8")

    def says(self, what: str) -> None:
        """Wait until the standard error contains a text."""
        until(lambda: what in self._err.read_text("utf-8"))

    def clear_away(self) -> None:
        # Kill the process group, which includes children left behind.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._keyboard is not None:
            os.close(self._keyboard)


class Terminal:
    """The environment of the commands: `tenure` is on PATH, and the store is the default."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs: list[Program] = []
        path = folder / "path"
        path.mkdir()
        self.write("path/tenure", f'exec "{sys.executable}" -m tenure.cli "$@"')
        self.environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}

    def jobs(self) -> tenure.Jobs:
        return tenure.Jobs(f"sqlite:///{self.folder / 'tenure.db'}?timeout=30")

    def write(self, name: str, text: str) -> Path:
        """Write a shell script."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def start(self, *arguments: str, has_terminal: bool = False) -> Program:
        """Start `tenure` with these arguments."""
        return self.start_any(sys.executable, "-m", "tenure.cli", *arguments, has_terminal=has_terminal)

    def start_any(self, *command: str, has_terminal: bool = False) -> Program:
        self._programs.append(Program(self, len(self._programs), command, has_terminal=has_terminal))
        return self._programs[-1]

    def run(self, *arguments: str) -> Ran:
        """Run `tenure` with these arguments to its end."""
        return self.start(*arguments).ended()

    def run_script(self, text: str) -> Ran:
        """Run a shell script to its end."""
        return self.start_any("sh", "-c", text).ended()

    def reads(self, name: str) -> str:
        """Wait until a file has content; return the content."""
        path = self.folder / name
        return until(lambda: path.read_text() if path.exists() else "")

    def clear_away(self) -> None:
        for each in self._programs:
            each.clear_away()


def is_alive(pid: int) -> bool:
    """Whether a process is running. A zombie does not count."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
