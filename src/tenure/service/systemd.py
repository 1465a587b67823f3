"""Tells systemd how the service is: that it is ready, what it does, that it stops, and that it still turns.

Without systemd there is nobody to tell, and nothing is done. Whatever goes wrong here does not trouble the service. The
words are those of sd_notify(3).
"""

import logging
import math
import os
import socket
import threading
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Self

from tenure.client.keeper import Ticks, ticks
from tenure.service.health_checks import against_life, against_readiness
from tenure.service.status import Condition

log = logging.getLogger(__name__)

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
EVERY = 0.5
"""Seconds after which it looks again how the service is."""
STATUS_EVERY = 5.0
"""Seconds between two words about what the service does."""
MORE_TIME = 30.0
"""Seconds for which a service that stops, and turns, asks each time: how long it may take is for its grace to say."""
PATIENCE = 1.0
"""Seconds that systemd has to take a word, and a last look has to end."""


class Notifier:
    """As a block, it tells what there is to be told while the block runs.

    It takes its variables out of the environment: programs that handlers start must not speak for the service.
    """

    def __init__(
        self,
        condition: Callable[[], Condition],
        environment: MutableMapping[str, str] = os.environ,
        ticks: Ticks = ticks,
    ) -> None:
        address, watchdog, watched = (environment.pop(name, "") for name in VARIABLES)
        self._condition = condition
        self._ticks = ticks
        self._place = _place_of(address)
        self._watchdog = _seconds_of(watchdog) if watched in {"", str(os.getpid())} else None
        self._is_failing = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._begin()

    def _begin(self) -> None:
        """Take it that nothing was told."""
        self._is_ready = self._is_stopping = False
        self._status = ""
        self._status_due_at = self._sign_due_at = -math.inf

    def __enter__(self) -> Self:
        if self._place is not None:
            self._thread = threading.Thread(target=self._run, name="tenure-notify", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        self._closing.set()
        self._thread.join(PATIENCE)
        if not self._is_stopping:
            self._send(["STOPPING=1"])

    def beat(self) -> None:
        """Look how the service is, and tell what is new."""
        try:
            words = self._words(self._condition(), self._ticks())
        except Exception:
            if not self._is_failing:
                log.exception("how the service is could not be told to systemd, trying on")
            self._is_failing = True
            return
        self._is_failing = False
        if words:
            self._send(words)

    def _run(self) -> None:
        # Four times in the time that systemd gives, to be heard after half of it, even if a turn comes late.
        every = EVERY if self._watchdog is None else min(EVERY, self._watchdog / 4)
        self.beat()
        while not self._closing.wait(every):
            self.beat()

    def _words(self, condition: Condition, now: float) -> list[str]:
        words: list[str] = []
        complaints = against_life(condition)
        if not self._is_ready and not against_readiness(condition):
            self._is_ready = True
            words.append("READY=1")
        if condition.is_stopping and not self._is_stopping:
            self._is_stopping = True
            self._sign_due_at = now
            words.append("STOPPING=1")
        if not complaints:
            words += self._signs_of_life(condition, now)
        status = "; ".join(complaints or against_readiness(condition)) or _status_of(condition)
        if status != self._status and (words or now >= self._status_due_at):
            self._status, self._status_due_at = status, now + STATUS_EVERY
            words.append(f"STATUS={status}")
        return words

    def _signs_of_life(self, condition: Condition, now: float) -> list[str]:
        """Return what keeps systemd from ending the service by force."""
        if now < self._sign_due_at:
            return []
        self._sign_due_at = now + min(MORE_TIME, self._watchdog or MORE_TIME) / 2
        watchdog = [] if self._watchdog is None else ["WATCHDOG=1"]
        more_time = [f"EXTEND_TIMEOUT_USEC={MORE_TIME * 1e6:.0f}"] if condition.is_stopping else []
        return watchdog + more_time

    def _send(self, words: list[str]) -> None:
        if self._place is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.settimeout(PATIENCE)
                line.sendto("\n".join(words).encode(), self._place)
        except OSError as exc:
            log.debug("systemd could not be told, trying on: %s", exc)
            self._begin()


def _place_of(address: str) -> str | None:
    """Return where systemd listens: a path, or an abstract name, which begins with NUL."""
    if address[:1] not in {"/", "@"} or not hasattr(socket, "AF_UNIX"):
        return None
    return f"\0{address[1:]}" if address.startswith("@") else address


def _seconds_of(text: str) -> float | None:
    """Return the microseconds that the text tells, in seconds; None if it tells none."""
    return int(text) / 1e6 if text.isdecimal() and int(text) > 0 else None


def _status_of(condition: Condition) -> str:
    running = sum(worker.running for worker in condition.workers)
    return f"{len(condition.workers)} of {condition.wanted} workers, {running:,} running"
