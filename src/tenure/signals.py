"""Stop a worker on signals.

A signal that was ignored when the program started stays ignored, as `nohup` and background jobs of a shell require.
SIGTERM is the exception: it always stops the worker, even if the parent process ignored or blocked it.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol


class Stoppable(Protocol):
    def stop(self, *, now: bool = False) -> None: ...


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else (signal.SIGINT, signal.SIGTERM)
"""SIGHUP arrives when a terminal is closed."""


class StopSignals:
    """Call `receive` for each stop signal until `restore`. Only the main thread can set signal handlers."""

    def __init__(self, receive: Callable[[int, FrameType | None], object]) -> None:
        handled = [each for each in SIGNALS if each is signal.SIGTERM or signal.getsignal(each) is not signal.SIG_IGN]
        self._before: dict[signal.Signals, Any] = {each: signal.signal(each, receive) for each in handled}
        self._was_blocked = _set_sigterm_blocked(is_blocked=False)

    def restore(self) -> None:
        """Restore the previous handlers and signal mask."""
        _set_sigterm_blocked(is_blocked=self._was_blocked)
        for each, handler in self._before.items():
            # None: the previous handler was not set from Python and cannot be restored.
            signal.signal(each, signal.SIG_DFL if handler is None else handler)


def _set_sigterm_blocked(*, is_blocked: bool) -> bool:
    """Block or unblock SIGTERM in this thread; return whether it was blocked."""
    if not hasattr(signal, "pthread_sigmask"):
        return False
    how = signal.SIG_BLOCK if is_blocked else signal.SIG_UNBLOCK
    return signal.SIGTERM in signal.pthread_sigmask(how, {signal.SIGTERM})


@contextmanager
def stopped_by_signals(worker: Stoppable) -> Iterator[None]:
    """Stop the worker at the first signal, and without waiting at the second; a third has its previous effect.

    Only the main thread can set signal handlers; in another thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received, process = 0, os.getpid()

    def receive(number: int, _: object) -> None:
        nonlocal received
        if os.getpid() != process:
            # A process forked by a handler has no worker to stop: restore the handlers and raise the signal again.
            signals.restore()
            signal.raise_signal(number)
            return
        received += 1
        if received > 1:
            signals.restore()
        worker.stop(now=received > 1)

    signals = StopSignals(receive)
    try:
        yield
    finally:
        signals.restore()
