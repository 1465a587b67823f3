"""Receive the notifications of one store handle, on a separate connection and channel.

A silent connection may be broken somewhere in the network. So the listener sends PING after a silence, and reconnects
if no response arrives. While the listener is disconnected, waiters do not rely on notifications and poll more often.
"""

import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable

from redis.exceptions import NoPermissionError, RedisError

from tenure.backends.redis.connection import RedisConnection, pack_request
from tenure.backends.redis.server import Server
from tenure.backends.shared import forking
from tenure.errors import TenureError

log = logging.getLogger(__name__)

PING_INTERVAL = 30.0
"""Seconds of silence, with jitter, after which the listener sends PING."""
PING_TIMEOUT = 2.0
"""Seconds to wait for the response to PING."""
LISTENER_IDLE_TTL = 60.0
"""Seconds that the listener thread stays after the last wait."""
CLOSE_TIMEOUT = 2.0
"""Seconds that `close` waits for the thread, which may be connecting."""

SHORTEST_RECONNECT_DELAY, LONGEST_RECONNECT_DELAY = 0.1, 5.0
"""Seconds between two attempts to connect."""

PING = pack_request(["PING"])


class PingTimeout(Exception):  # noqa: N818 - names a fact, and never leaves this module
    """The server did not respond to PING, or no longer serves the store."""


class Listener:
    """A thread that receives notifications while callers wait for jobs.

    The thread calls `on_notification` with each message, and `on_change` when it connects or loses its connection:
    notifications may have been missed.
    """

    def __init__(
        self, server: Server, channel: str, *, on_notification: Callable[[str], None], on_change: Callable[[], None]
    ) -> None:
        self._server = server
        self._subscribe = pack_request(["SUBSCRIBE", channel])
        self._on_notification = on_notification
        self._on_change = on_change
        self._reset()
        forking.register(self)

    def _reset(self) -> None:
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
        """Whether notifications arrive, as far as is known."""
        return self._is_connected is True

    def ensure_listening(self) -> None:
        """Start the thread if necessary, and keep it for another `LISTENER_IDLE_TTL` seconds."""
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
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_TIMEOUT)

    def after_fork_in_child(self) -> None:
        """Reset: a fork copies no thread, and the connection belongs to the parent."""
        forking.abandon(self._open_handles)
        self._reset()

    def _start(self) -> None:
        waker, woken = socket.socketpair()
        thread = threading.Thread(target=self._run, args=(woken,), name="tenure-listener", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is shutting down
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
                except NoPermissionError as exc:
                    self._is_unsupported = True
                    self._record_state(is_connected=False, reason=exc)
                except (RedisError, OSError, TenureError, PingTimeout) as exc:
                    pause = SHORTEST_RECONNECT_DELAY if self._is_connected else pause
                    self._record_state(is_connected=False, reason=exc)
                    self._closing.wait(pause * random.uniform(0.5, 1.0))
                    pause = min(2 * pause, LONGEST_RECONNECT_DELAY)

    def _should_stop(self) -> bool:
        """Return whether the thread ends. If so, reset its state: the next wait starts a new thread."""
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
        """Connect, subscribe and receive messages until the listener is no longer needed or the connection fails."""
        generation = self._server.generation
        connection = self._server.connect()
        self._open_handles.append(connection)
        try:
            connection.execute(self._subscribe)
            self._record_state(is_connected=True)
            self._receive(connection, woken, generation)
        finally:
            connection.close()
            self._open_handles.remove(connection)

    def _receive(self, connection: RedisConnection, woken: socket.socket, generation: int) -> None:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(woken, select.POLLIN)
        ping_at, ping_ends_at = _next_ping_at(), None
        while self._should_run():
            now = time.monotonic()
            if ping_ends_at is None and now >= ping_at:
                connection.send(PING)
                ping_ends_at = now + PING_TIMEOUT
            wakes_at = ping_at if ping_ends_at is None else ping_ends_at
            poll.poll(1000 * max(0.0, min(wakes_at, self._wanted_until) - now))
            messages = connection.read_messages()
            if messages:
                ping_at, ping_ends_at = _next_ping_at(), None
            elif ping_ends_at is not None and time.monotonic() >= ping_ends_at:
                raise PingTimeout(f"no response to PING within {PING_TIMEOUT:g} s")
            for kind, *_, message in messages:
                if kind == b"message":
                    self._on_notification(message.decode(errors="replace"))
            # In a cluster every node delivers a message, but PUBLISH counts only the subscribers of its own node. The
            # scripts take a listener on another node for dead, and would wake all waiters.
            if generation != self._server.generation:
                raise PingTimeout("the store may have moved to another server")

    def _record_state(self, *, is_connected: bool, reason: Exception | None = None) -> None:
        if is_connected == self._is_connected:
            return
        was_lost, self._is_connected = self._is_connected is False, is_connected
        store = self._server.address.shown
        if is_connected:
            # INFO only if the loss was logged before.
            level = logging.INFO if was_lost else logging.DEBUG
            log.log(level, "SUBSCRIBE connection is up", extra={"store": store})
        else:
            why = " ".join(str(reason).split())
            facts = {"store": store, "reason": why}
            log.info("SUBSCRIBE connection lost; polling once a second until it is back: %s", why, extra=facts)
        self._on_change()


def _next_ping_at() -> float:
    return time.monotonic() + PING_INTERVAL * random.uniform(0.8, 1.2)
