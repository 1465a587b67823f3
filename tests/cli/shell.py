"""Run commands as a user of a shell would, and collect their results."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tenure
from tenure.cli.program import run

UNWANTED = (
    *("TENURE_", "_TENURE_", "PG", "NOTIFY_SOCKET", "WATCHDOG_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),
    *("PYTHONIOENCODING", "PYTHONUNBUFFERED"),
)
"""Prefixes of environment variables that influence a command. The tests run without the variables of their caller."""


def unwanted_variables() -> list[str]:
    return [name for name in os.environ if name.startswith(UNWANTED)]


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        """The printed JSON lines."""
        return [json.loads(line) for line in self.lines]

    @property
    def is_told_in_one_line(self) -> bool:
        """Whether the command ended as misuse: one line on the standard error and no output."""
        return (self.code, self.out, self.err.count("\n")) == (2, "", 1) and self.err.startswith("tenure: ")


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands in the folder of the test, without `$TENURE_URL`."""

    folder: Path
    _started: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def run(self, *arguments: str) -> Result:
        """Run tenure in this process, which is fast. The result includes the output of child processes."""
        with TemporaryDirectory(prefix="tenure-shell-") as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            with stream_to(out, 1), stream_to(err, 2), self._as_a_process():
                code = run(arguments)
            return Result(code, out.read_text("utf-8"), err.read_text("utf-8"))

    @contextmanager
    def _as_a_process(self) -> Iterator[None]:
        """Undo the changes that a command makes to the state of this process."""
        path, modules = [*sys.path], {*sys.modules}
        loggers = [logging.getLogger(), logging.getLogger("tenure")]
        before = [([*logger.handlers], logger.level) for logger in loggers]
        try:
            yield
        finally:
            sys.path[:] = path
            for logger, (handlers, level) in zip(loggers, before, strict=True):
                logger.handlers[:] = handlers
                logger.setLevel(level)
            for name in sys.modules.keys() - modules:
                if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(self.folder)):
                    del sys.modules[name]

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """Start tenure in a separate process."""
        return self.start_any(sys.executable, "-m", "tenure.cli", *arguments, **options)

    def start_any(self, *command: str, **options: Any) -> "subprocess.Popen[str]":
        """Start a program detached from our terminal, with an empty standard input. The test kills it at the end."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._started.append(
            subprocess.Popen(
                command,
                cwd=self.folder,
                encoding="utf-8",
                env={**os.environ, **options.pop("env", {})},
                start_new_session=True,
                **{**streams, **options},
            )
        )
        return self._started[-1]

    def jobs(self) -> tenure.Jobs:
        """Open the store of this folder."""
        return tenure.Jobs(f"sqlite:///{self.folder / 'tenure.db'}?synchronous=normal")

    def write(self, name: str, text: str) -> Path:
        """Write a file here."""
        path = self.folder / name
        path.write_text(text)
        return path

    def clear_away(self) -> None:
        for process in self._started:
            # Kill the process group, which includes children left behind.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@contextmanager
def stream_to(path: Path, number: int) -> Iterator[None]:
    """Redirect the stream with this number to a file, for this process and its children."""
    redirected = {1: redirect_stdout, 2: redirect_stderr}[number]
    # Append mode: writers with a stream and writers with a descriptor must not overwrite each other.
    with path.open("a", encoding="utf-8", errors="replace") as stream, redirected(stream):
        before = os.dup(number)
        os.dup2(stream.fileno(), number)
        try:
            yield
        finally:
            os.dup2(before, number)
            os.close(before)
