"""Signals that whoever started the tests had ignored or blocked, as `nohup` and a shell with `&` do.

The test process goes on ignoring them. The processes that tests start get the default, as from a terminal.
"""

import signal

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def ignored_or_blocked() -> list[int]:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return [int(each) for each in SIGNALS if each in blocked or signal.getsignal(each) is signal.SIG_IGN]


def ignore_here_alone(numbers: list[int]) -> None:
    """Ignore these signals by a handler that does nothing, which a program that is started does not inherit."""
    for each in numbers:
        signal.signal(each, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
