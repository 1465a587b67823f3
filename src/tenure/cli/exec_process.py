"""The process of a command that `tenure exec` runs for a job. The payload is on its standard input.

The process stays in our process group, so Ctrl-C in a terminal reaches the command directly. On Linux the kernel sends
SIGTERM to the command when this process dies.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tenure.client.keeper import ticks
from tenure.errors import ConfigurationError

MAX_ERROR_BYTES = 4 * 1024
"""Bytes kept from the end of the standard error."""
MAX_OUTPUT_BYTES = 1024 * 1024
"""Bytes kept of the standard output. Longer output is too large for a result."""
OUTPUT_DRAIN_TIMEOUT = 1.0
"""Seconds to read on after the command has ended: a process that the command left behind may hold the pipe open."""
CHUNK_BYTES = 64 * 1024
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The exit code and the output of a command. `output` is None if it exceeded the limit."""

    code: int
    error: str
    output: bytes | None

    def __str__(self) -> str:
        """Return the exit code or signal, and the end of the standard error."""
        return f"{self.summary}; end of standard error:\n{self.error}" if self.error.strip() else self.summary

    @property
    def summary(self) -> str:
        return f"exit code {self.code}" if self.code >= 0 else f"killed by {signal_name(-self.code)}"


class ExecProcess:
    """A running command. Leaving the block kills the command if it is still running."""

    def __init__(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], payload: str, keeps_output: bool
    ) -> None:
        # A file, not a pipe: a command that does not read its input must not block us.
        with tempfile.TemporaryFile() as file:
            file.write(payload.encode())
            file.seek(0)
            self._process = subprocess.Popen(  # noqa: S603 - running the user's command is the purpose
                arguments,
                stdin=file,
                stdout=subprocess.PIPE if keeps_output else None,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
                preexec_fn=parent_death_hook(),  # noqa: PLW1509 - takes no lock, see `parent_death_hook`
            )
        self._error = OutputTee(self._process.stderr, sys.stderr, MAX_ERROR_BYTES)
        self._output = OutputTee(self._process.stdout, sys.stdout, MAX_OUTPUT_BYTES)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def ending_signal(self) -> int | None:
        """Return the signal that ended the process, if any."""
        code = self._process.poll()
        return -code if code is not None and code < 0 else None

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> CommandResult:
        """Wait for the process to end; return its exit code and output."""
        code = self._process.wait()
        until = ticks() + OUTPUT_DRAIN_TIMEOUT
        error, output = self._error.tail(until), self._output.tail(until)
        return CommandResult(
            code=code,
            error=error.decode(errors="replace"),
            output=None if self._output.is_truncated else output,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running():
            self.kill()
            self._process.wait()


class OutputTee:
    """Forwards the output of a process and keeps the end of it. Without a source there is nothing to read.

    A background thread reads, so that the process never blocks on a full pipe. Joining the thread has a timeout: a
    grandchild may inherit the pipe and keep it open.
    """

    def __init__(self, source: IO[bytes] | None, target: IO[str], limit: int) -> None:
        self._source = source
        self._target: int | None = target.fileno()
        self._limit = limit
        self._tail = bytearray()
        self.is_truncated = False
        self._thread = threading.Thread(target=self._run, name="tenure-output", daemon=True)
        self._thread.start()

    def tail(self, until: float) -> bytes:
        """Return the kept bytes once all output is read, or at `until` at the latest."""
        self._thread.join(max(0.0, until - ticks()))
        return bytes(self._tail)

    def _run(self) -> None:
        if self._source is None:
            return
        with self._source:
            while chunk := os.read(self._source.fileno(), CHUNK_BYTES):
                self._forward(chunk)
                self.is_truncated = self.is_truncated or len(self._tail) + len(chunk) > self._limit
                self._tail = (self._tail + chunk)[-self._limit :]

    def _forward(self, chunk: bytes) -> None:
        if self._target is None:
            return
        try:
            while chunk:
                chunk = chunk[os.write(self._target, chunk) :]
        except OSError:
            # The reader closed our output. The command keeps running.
            self._target = None


def parent_death_hook() -> Callable[[], None] | None:
    """Return a `preexec_fn` with which a child gets SIGTERM when this process dies. None where the system cannot.

    Only the main thread may fork: Linux sends the signal when the forking thread ends, not the process.
    """
    if sys.platform != "linux":
        return None
    try:
        from ctypes import PyDLL
    except ImportError:
        return None
    # Between fork and exec, code must not take a lock: another thread may have held it at the fork. So all names are
    # looked up here, and the call goes through PyDLL, which does not release the GIL.
    prctl, parent, exit = PyDLL(None).prctl, os.getpid(), os._exit
    set_signal, terminate, default = signal.signal, signal.SIGTERM, signal.SIG_DFL

    def set_parent_death_signal() -> None:
        # The child inherits our handler, which would swallow the signal.
        set_signal(terminate, default)
        prctl(PR_SET_PDEATHSIG, int(terminate))
        if os.getppid() != parent:
            exit(128 + terminate)

    return set_parent_death_signal


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def require_runnable(name: str) -> None:
    """Raise if the command does not exist or is not executable."""
    if shutil.which(name) is not None:
        return
    if os.sep in name:
        remedy = "it is not executable; run `chmod +x` on it" if Path(name).is_file() else "no such file"
    else:
        remedy = f"it is not on PATH; for a file in this folder, write ./{name}"
    raise ConfigurationError(f"cannot run {name!r}: {remedy}")
