"""Receive the notifications of all processes, on a dedicated connection.

A silent connection may be dead: the network is broken, or a pooler gave the session to another client. So the listener
sends a ping to itself over another connection, at the start and after every quiet period. Until the ping arrives,
waiters do not rely on the listener and poll more often.
"""

import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

import psycopg

from tenure.backends.postgres.address import Address
from tenure.backends.postgres.connector import ListenUnsupported
from tenure.backends.postgres.notifier import Notification, channel_of, parse_notification
from tenure.backends.postgres.pipeline import BoundQuery, PipelineConnection
from tenure.backends.postgres.statements import make_statement, quote_name

log = logging.getLogger(__name__)

PING_INTERVAL = 30.0
"""Seconds without a notification, roughly, after which the listener sends a ping to itself."""
PING_TIMEOUT = 2.0
"""Seconds in which the ping has to arrive."""
LISTENER_IDLE_TTL = 60.0
"""Seconds that the thread keeps listening after the last wait."""
CLOSE_TIMEOUT = 2.0
"""Seconds that `close` waits for the thread, which may be connecting."""

SHORTEST_RECONNECT_DELAY = 0.1
LONGEST_RECONNECT_DELAY = 5.0
LONGEST_RECONNECT_DELAY_WITHOUT_PING = 60.0
"""Seconds between two attempts to connect; longer if connections succeed but receive no notifications."""

NO_IDLE_TIMEOUT = make_statement("set idle_session_timeout = 0")


class PingTimeout(Exception):  # noqa: N818 - an internal signal of this module
    """The listener's own ping did not arrive."""


class Listener:
    """A thread that runs while threads of this process wait for jobs.

    The listener calls `on_notification` with each notification of another `JobWaiter`, and `on_change` when the
    connection starts or stops receiving notifications.
    """

    def __init__(
        self,
        address: Address,
        name: str,
        *,
        connect: Callable[[], psycopg.Connection[Any]],
        ping: Callable[[Collection[str]], None],
        on_notification: Callable[[Notification], None],
        on_change: Callable[[], None],
    ) -> None:
        self._address = address
        self._listen = make_statement(f"listen {quote_name(channel_of(address.schema))}")
        self._name = name
        self._connect = connect
        self._ping = ping
        self._on_notification = on_notification
        self._on_change = on_change
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._wanted_until = 0.0
        self._is_connected: bool | None = None
        self._is_unsupported = False
        self._thread: threading.Thread | None = None
        self._waker: socket.socket | None = None
        self._open_handles: list[object] = []

    @property
    def is_connected(self) -> bool:
        """Whether the last ping arrived, so that notifications can be expected."""
        return self._is_connected is True

    def ensure_listening(self) -> None:
        """Start the thread if needed, and keep it running for another minute."""
        with self._lock:
            self._wanted_until = time.monotonic() + LISTENER_IDLE_TTL
            if self._thread is None and self._should_run():
                self._start()

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            thread = self._thread
            if self._waker is not None:
                self._waker.send(b"!")
        if thread is not None:
            thread.join(CLOSE_TIMEOUT)

    def open_handles(self) -> list[object]:
        """Return the open sockets and connections, which a forked child must not close."""
        return self._open_handles

    def _start(self) -> None:
        waker, woken = socket.socketpair()
        thread = threading.Thread(target=self._run, args=(woken,), name="tenure-listener", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread can be started during interpreter shutdown
            waker.close()
            woken.close()
            return
        self._thread, self._waker = thread, waker
        self._open_handles = [waker, woken]

    def _run(self, woken: socket.socket) -> None:
        pause = SHORTEST_RECONNECT_DELAY
        with woken:
            while not self._should_stop():
                try:
                    self._connect_and_listen(woken)
                except ListenUnsupported as exc:
                    self._is_unsupported = True
                    self._record_state(is_connected=False, reason=exc)
                except (psycopg.Error, OSError, PingTimeout) as exc:
                    pause = SHORTEST_RECONNECT_DELAY if self._is_connected else pause
                    self._record_state(is_connected=False, reason=exc)
                    self._closing.wait(pause * random.uniform(0.5, 1.0))
                    pause = min(
                        2 * pause,
                        LONGEST_RECONNECT_DELAY_WITHOUT_PING
                        if isinstance(exc, PingTimeout)
                        else LONGEST_RECONNECT_DELAY,
                    )

    def _should_stop(self) -> bool:
        """Return whether to stop. If so, reset the state so that the next wait starts a new thread."""
        with self._lock:
            if self._should_run():
                return False
            self._is_connected = None
            self._thread = None
            if self._waker is not None:
                self._waker.close()
            self._waker = None
            return True

    def _should_run(self) -> bool:
        return not self._is_unsupported and not self._closing.is_set() and time.monotonic() < self._wanted_until

    def _connect_and_listen(self, woken: socket.socket) -> None:
        """Connect, and listen until an error occurs or no thread waits."""
        connection = PipelineConnection(self._connect(), PING_TIMEOUT, uses_prepare=False)
        self._open_handles.append(connection)
        try:
            connection.execute([BoundQuery(NO_IDLE_TIMEOUT), BoundQuery(self._listen)])
            self._receive(connection, woken)
        finally:
            connection.close()
            self._open_handles.remove(connection)

    def _receive(self, connection: PipelineConnection, woken: socket.socket) -> None:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(woken, select.POLLIN)
        ping_at, ping_ends_at = 0.0, None
        while self._should_run():
            now = time.monotonic()
            if ping_ends_at is None and now >= ping_at:
                self._ping(())
                ping_ends_at = now + PING_TIMEOUT
            wakes_at = ping_at if ping_ends_at is None else ping_ends_at
            poll.poll(1000 * max(0.0, min(wakes_at, self._wanted_until) - now))
            notifications = [parse_notification(text) for text in connection.received_notifications()]
            if notifications:
                ping_at = time.monotonic() + PING_INTERVAL * random.uniform(0.8, 1.2)
            if any(notification.sender == self._name for notification in notifications):
                ping_ends_at = None
                self._record_state(is_connected=True)
            elif ping_ends_at is not None and time.monotonic() >= ping_ends_at:
                raise PingTimeout(f"a test notification did not arrive within {PING_TIMEOUT:g} s")
            for notification in notifications:
                if notification.sender != self._name:
                    self._on_notification(notification)

    def _record_state(self, *, is_connected: bool, reason: Exception | None = None) -> None:
        if is_connected == self._is_connected:
            return
        was_lost, self._is_connected = self._is_connected is False, is_connected
        if is_connected:
            # Log the recovery only if the outage was logged.
            level = logging.INFO if was_lost else logging.DEBUG
            log.log(level, "LISTEN connected", extra={"store": self._address.shown})
        else:
            why = " ".join(str(reason).split())
            facts = {"store": self._address.shown, "reason": why}
            log.info("LISTEN unavailable, polling once a second: %s", why, extra=facts)
        self._on_change()
