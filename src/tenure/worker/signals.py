"""Stop a worker by signals: the first asks it to end, the second not to wait."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Stoppable(Protocol):
    def stop(self, *, now: bool = False) -> None: ...


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else (signal.SIGINT, signal.SIGTERM)
"""SIGHUP comes when a terminal is closed; one that is ignored, as by nohup, stays so."""


@contextmanager
def stopped_by_signals(worker: Stoppable) -> Iterator[None]:
    """Stop the worker at the first signal, and now at the second; a third has the effect that it had before.

    Only the main thread can do this; in another, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: found for each in SIGNALS if (found := signal.getsignal(each)) is not signal.SIG_IGN}
    received, process = 0, os.getpid()

    def receive(number: int, _: object) -> None:
        nonlocal received
        if os.getpid() != process:
            # A forked child of a handler's has no worker to stop, and whoever ended it means it.
            _restore(before)
            signal.raise_signal(number)
            return
        received += 1
        if received > 1:
            _restore(before)
        worker.stop(now=received > 1)

    for each in before:
        signal.signal(each, receive)
    try:
        yield
    finally:
        _restore(before)


def _restore(before: dict[signal.Signals, Any]) -> None:
    for each, handler in before.items():
        # None: it was set by something that is not Python, and cannot be set again.
        signal.signal(each, signal.SIG_DFL if handler is None else handler)
