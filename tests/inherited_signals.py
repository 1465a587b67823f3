"""Signals that the parent of the tests ignored or blocked, as `nohup` and a shell with `&` do.

The test process continues to ignore them. Processes that tests start get the default action, as from a terminal.
"""

import signal

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def ignored_or_blocked() -> list[int]:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return [int(each) for each in SIGNALS if each in blocked or signal.getsignal(each) is signal.SIG_IGN]


def ignore_here_alone(numbers: list[int]) -> None:
    """Ignore the signals with an empty handler: child programs do not inherit handlers."""
    for each in numbers:
        signal.signal(each, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
