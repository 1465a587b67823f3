"""A command that works on a job: a process that gets the payload on its standard input.

It is in our process group, so a terminal's Ctrl-C reaches it by itself. It does not outlive us without being told.
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

ERROR_KEPT = 4 * 1024
"""Bytes of the standard error that are kept, from its end."""
OUTPUT_KEPT = 1024 * 1024
"""Bytes of the standard output that are kept; of more, nothing could become a result."""
LINGER = 1.0
"""Seconds that a process which the command left behind may keep its output open, until nobody reads it any more."""
CHUNK = 64 * 1024
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended, and what it said. `output` is None if it was not kept, or was too much."""

    code: int
    error: str
    output: bytes | None

    def __str__(self) -> str:
        """How it ended, and the end of what it wrote to the standard error."""
        return f"{self.how}; the end of its standard error:\n{self.error}" if self.error.strip() else self.how

    @property
    def how(self) -> str:
        return f"exit code {self.code}" if self.code >= 0 else f"killed by {name_of_signal(-self.code)}"


class Command:
    """A command that runs. As a block, it is killed if it still runs when the block is left."""

    def __init__(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], payload: str, keeps_output: bool
    ) -> None:
        # A file, not a pipe: a command that does not read it costs nothing.
        with tempfile.TemporaryFile() as file:
            file.write(payload.encode())
            file.seek(0)
            self._process = subprocess.Popen(  # noqa: S603 - to run what the user names is what this is for
                arguments,
                stdin=file,
                stdout=subprocess.PIPE if keeps_output else None,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
                preexec_fn=told_of_our_death(),  # noqa: PLW1509 - it is fit for that; see there
            )
        self._error = Passage(self._process.stderr, sys.stderr, ERROR_KEPT)
        self._output = Passage(self._process.stdout, sys.stdout, OUTPUT_KEPT)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def killer(self) -> int | None:
        """Return the signal that has ended it, if one did."""
        code = self._process.poll()
        return -code if code is not None and code < 0 else None

    def ask_to_end(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def ended(self) -> Ended:
        """Wait for its end, and return how it was."""
        code = self._process.wait()
        until = ticks() + LINGER
        error, output = self._error.kept(until), self._output.kept(until)
        return Ended(
            code=code,
            error=error.decode(errors="replace"),
            output=None if self._output.is_cut else output,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running():
            self.kill()
            self._process.wait()


class Passage:
    """Passes on what a process writes, and keeps the end of it; without a source, nothing.

    In a thread, so that the process is never held up. Nobody waits for that one for long: another process may have the
    pipe, and keep it open.
    """

    def __init__(self, source: IO[bytes] | None, target: IO[str], most: int) -> None:
        self._source = source
        self._target: int | None = target.fileno()
        self._most = most
        self._kept = bytearray()
        self.is_cut = False
        self._thread = threading.Thread(target=self._run, name="tenure-passage", daemon=True)
        self._thread.start()

    def kept(self, until: float) -> bytes:
        """Return what is kept when all is read, or at this time."""
        self._thread.join(max(0.0, until - ticks()))
        return bytes(self._kept)

    def _run(self) -> None:
        if self._source is None:
            return
        with self._source:
            while chunk := os.read(self._source.fileno(), CHUNK):
                self._pass_on(chunk)
                self.is_cut = self.is_cut or len(self._kept) + len(chunk) > self._most
                self._kept = (self._kept + chunk)[-self._most :]

    def _pass_on(self, chunk: bytes) -> None:
        if self._target is None:
            return
        try:
            while chunk:
                chunk = chunk[os.write(self._target, chunk) :]
        except OSError:
            # Whoever read it is gone. The command is not to suffer from that.
            self._target = None


def told_of_our_death() -> Callable[[], None] | None:
    """Return what a child has to do so that it gets SIGTERM when this process dies, or None where that cannot be had.

    Who forks has to be the main thread: the system takes the end of that thread for the death.
    """
    if sys.platform != "linux":
        return None
    try:
        from ctypes import PyDLL
    except ImportError:
        return None
    # Between fork and exec only what takes no lock may run, as other threads may have had any. Everything is looked up
    # here, and a function of a PyDLL is called without letting go of the interpreter's lock; so this is fit for there.
    prctl, parent, exit = PyDLL(None).prctl, os.getpid(), os._exit
    set_signal, terminate, default = signal.signal, signal.SIGTERM, signal.SIG_DFL

    def be_told() -> None:
        # Our own handler, which the child still has, would swallow it.
        set_signal(terminate, default)
        prctl(PR_SET_PDEATHSIG, int(terminate))
        if os.getppid() != parent:
            exit(128 + terminate)

    return be_told


def name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def must_be_runnable(name: str) -> None:
    """Raise if there is no such command, or it cannot be run."""
    if shutil.which(name) is not None:
        return
    if os.sep in name:
        remedy = "make it executable with `chmod +x`" if Path(name).is_file() else "there is no such file"
    else:
        remedy = f"it is not on the path; for one in this folder write ./{name}"
    raise ConfigurationError(f"{name!r} cannot be run: {remedy}")
