"""Hear signals without being interrupted by them: who waits here is woken, and looks at what was received.

A signal that comes a moment before the wait is not missed: it leaves a byte in a socket, and the wait is for that.
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

CHILD: signal.Signals | None = getattr(signal, "SIGCHLD", None)


class Signals:
    """As a block, in the main thread: signals that ask to stop are noted; they and a child that ended wake the wait."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._ear, self._mouth = socket.socketpair()
        self._stop_signals: StopSignals | None = None
        self._child_before: Any = None
        self._wakeup_before = -1

    def wait(self, timeout: float) -> None:
        """Return when something happened, or after so many seconds."""
        if select.select([self._ear], [], [], max(0.0, timeout))[0]:
            with suppress(BlockingIOError):
                self._ear.recv(4096)

    def wake(self) -> None:
        """End a wait, from whichever thread."""
        with suppress(OSError):
            self._mouth.send(b"\0")

    def __enter__(self) -> Self:
        for each in (self._ear, self._mouth):
            each.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        self._stop_signals = StopSignals(lambda number, _: self.received.append(number))
        if CHILD is not None:
            # Not ignored: a signal that is ignored wakes nobody.
            self._child_before = signal.signal(CHILD, lambda *_: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if CHILD is not None:
            signal.signal(CHILD, signal.SIG_DFL if self._child_before is None else self._child_before)
        if self._stop_signals is not None:
            self._stop_signals.restore()
        signal.set_wakeup_fd(self._wakeup_before)
        self._ear.close()
        self._mouth.close()


def is_from_terminal(number: int) -> bool:
    """Tell whether a signal is that of Ctrl-C, as far as can be told: then all of our process group has got it."""
    if number != signal.SIGINT or not hasattr(os, "tcgetpgrp"):
        return False
    try:
        with Path("/dev/tty").open("rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
