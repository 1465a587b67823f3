"""Notify systemd of the status of the service: ready, status text, stopping, and the watchdog.

Without systemd this does nothing. Errors here never affect the service. The messages are those of sd_notify(3).
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
from tenure.service.health_checks import liveness_problems, readiness_problems
from tenure.service.status import ServiceStatus

log = logging.getLogger(__name__)

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
CHECK_INTERVAL = 0.5
"""Seconds between two checks of the service status."""
STATUS_INTERVAL = 5.0
"""Seconds between two status texts."""
TIMEOUT_EXTENSION = 30.0
"""Seconds of extra time that a stopping service requests, again and again: the grace period limits the total."""
SEND_TIMEOUT = 1.0
"""Time limit in seconds for sending a message, and for the thread to end."""


class SystemdNotifier:
    """Send notifications while the block runs.

    The constructor removes its variables from the environment: programs started by handlers must not notify systemd.
    """

    def __init__(
        self,
        service_status: Callable[[], ServiceStatus],
        environment: MutableMapping[str, str] = os.environ,
        ticks: Ticks = ticks,
    ) -> None:
        address, watchdog, watched = (environment.pop(name, "") for name in VARIABLES)
        self._service_status = service_status
        self._ticks = ticks
        self._address = _parse_address(address)
        self._watchdog = _parse_microseconds(watchdog) if watched in {"", str(os.getpid())} else None
        self._is_failing = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._reset()

    def _reset(self) -> None:
        """Forget the sent messages, so that the next update sends all of them again."""
        self._is_ready = self._is_stopping = False
        self._status = ""
        self._status_due_at = self._keepalive_due_at = -math.inf

    def __enter__(self) -> Self:
        if self._address is not None:
            self._thread = threading.Thread(target=self._run, name="tenure-systemd", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        self._closing.set()
        self._thread.join(SEND_TIMEOUT)
        if not self._is_stopping:
            self._send(["STOPPING=1"])

    def update(self) -> None:
        """Check the status of the service, and send changes."""
        try:
            messages = self._messages(self._service_status(), self._ticks())
        except Exception:
            if not self._is_failing:
                log.exception("service status for systemd not available, retrying")
            self._is_failing = True
            return
        self._is_failing = False
        if messages:
            self._send(messages)

    def _run(self) -> None:
        # Four checks in each watchdog period: a notification is due after half of it, even if a check is late.
        interval = CHECK_INTERVAL if self._watchdog is None else min(CHECK_INTERVAL, self._watchdog / 4)
        self.update()
        while not self._closing.wait(interval):
            self.update()

    def _messages(self, service: ServiceStatus, now: float) -> list[str]:
        messages: list[str] = []
        problems = liveness_problems(service)
        if not self._is_ready and not readiness_problems(service):
            self._is_ready = True
            messages.append("READY=1")
        if service.is_stopping and not self._is_stopping:
            self._is_stopping = True
            self._keepalive_due_at = now
            messages.append("STOPPING=1")
        if not problems:
            messages += self._keepalives(service, now)
        status = "; ".join(problems or readiness_problems(service)) or _describe(service)
        if status != self._status and (messages or now >= self._status_due_at):
            self._status, self._status_due_at = status, now + STATUS_INTERVAL
            messages.append(f"STATUS={status}")
        return messages

    def _keepalives(self, service: ServiceStatus, now: float) -> list[str]:
        """Return the messages that keep systemd from killing the service."""
        if now < self._keepalive_due_at:
            return []
        self._keepalive_due_at = now + min(TIMEOUT_EXTENSION, self._watchdog or TIMEOUT_EXTENSION) / 2
        watchdog = [] if self._watchdog is None else ["WATCHDOG=1"]
        more_time = [f"EXTEND_TIMEOUT_USEC={TIMEOUT_EXTENSION * 1e6:.0f}"] if service.is_stopping else []
        return watchdog + more_time

    def _send(self, messages: list[str]) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.settimeout(SEND_TIMEOUT)
                connection.sendto("\n".join(messages).encode(), self._address)
        except OSError as exc:
            log.debug("systemd not notified, retrying: %s", exc)
            self._reset()


def _parse_address(address: str) -> str | None:
    """Return the socket address of systemd: a path, or an abstract name, which begins with NUL."""
    if address[:1] not in {"/", "@"} or not hasattr(socket, "AF_UNIX"):
        return None
    return f"\0{address[1:]}" if address.startswith("@") else address


def _parse_microseconds(text: str) -> float | None:
    """Return a number of microseconds in seconds; None if the text is not a positive number."""
    return int(text) / 1e6 if text.isdecimal() and int(text) > 0 else None


def _describe(service: ServiceStatus) -> str:
    running = sum(worker.running for worker in service.workers)
    return f"{len(service.workers)} of {service.wanted} workers, {running:,} running"
