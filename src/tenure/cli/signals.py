"""Hear signals without being interrupted by them: who waits here is woken, and looks at what was received.

A signal that comes a moment before the wait is not missed: it leaves a byte in a socket, and the wait is for that.
"""

import os
import select
import signal
import socket
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
CHILD = tuple(getattr(signal, name) for name in ("SIGCHLD",) if hasattr(signal, name))


class Signals:
    """As a block, in the main thread: signals that ask to stop are noted; they and a child that ended wake the wait."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._ear, self._mouth = socket.socketpair()
        self._before: dict[int, Any] = {}
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
        for number in (*STOPPING, *CHILD):
            # What `nohup`, or a shell in the background, had this process ignore stays ignored.
            if number in CHILD or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._ear.close()
        self._mouth.close()

    def _receive(self, number: int, _: FrameType | None) -> None:
        if number in STOPPING:
            self.received.append(number)


def is_from_terminal(number: int) -> bool:
    """Tell whether a signal is that of Ctrl-C, as far as can be told: then all of our process group has got it."""
    if number != signal.SIGINT or not hasattr(os, "tcgetpgrp"):
        return False
    try:
        with Path("/dev/tty").open("rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
