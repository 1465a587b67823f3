"""Receive signals without being interrupted: a signal ends `wait`, and the caller checks `received`.

A signal just before the wait is not missed: the handler writes a byte to a socket, and `wait` selects on the socket.
"""

import os
import select
import signal
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tenure.signals import StopSignals

CHILD_SIGNAL: signal.Signals | None = getattr(signal, "SIGCHLD", None)


class Signals:
    """Records stop signals while the block is open, in the main thread. Stop signals and SIGCHLD end a `wait`."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._read_socket, self._write_socket = socket.socketpair()
        self._stop_signals: StopSignals | None = None
        self._child_before: Any = None
        self._wakeup_before = -1

    def wait(self, timeout: float) -> None:
        """Wait for a signal, a child that ended or `wake`, for at most `timeout` seconds."""
        if select.select([self._read_socket], [], [], max(0.0, timeout))[0]:
            with suppress(BlockingIOError):
                self._read_socket.recv(4096)

    def wake(self) -> None:
        """End a wait, from any thread."""
        with suppress(OSError):
            self._write_socket.send(b"\0")

    def __enter__(self) -> Self:
        for each in (self._read_socket, self._write_socket):
            each.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._write_socket.fileno(), warn_on_full_buffer=False)
        self._stop_signals = StopSignals(lambda number, _: self.received.append(number))
        if CHILD_SIGNAL is not None:
            # A handler, not SIG_IGN: an ignored signal does not write to the wake-up socket.
            self._child_before = signal.signal(CHILD_SIGNAL, lambda *_: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if CHILD_SIGNAL is not None:
            signal.signal(CHILD_SIGNAL, signal.SIG_DFL if self._child_before is None else self._child_before)
        if self._stop_signals is not None:
            self._stop_signals.restore()
        signal.set_wakeup_fd(self._wakeup_before)
        self._read_socket.close()
        self._write_socket.close()


def is_from_terminal(number: int) -> bool:
    """Guess whether a signal came from Ctrl-C, which the terminal sends to the whole process group."""
    if number != signal.SIGINT or not hasattr(os, "tcgetpgrp"):
        return False
    try:
        with Path("/dev/tty").open("rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
