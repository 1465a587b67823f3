"""Hear the calls for one handle, on a channel and a connection of its own.

A connection that says nothing may be one on which nothing can be heard, broken somewhere on the way. So after each
silence the server is asked to say something. Until it has, or while there is no connection, nobody relies on being
called, and those who wait look more often.
"""

import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable

from redis.exceptions import NoPermissionError, RedisError

from tenure.backends.redis.connection import Wire, packed
from tenure.backends.redis.server import Server
from tenure.backends.shared import forking as forks
from tenure.errors import TenureError

log = logging.getLogger(__name__)

SILENCE = 30.0
"""Seconds without a word, about, after which the server is asked for one."""
PROOF = 2.0
"""Seconds within which it then has to be heard."""
LINGER = 60.0
"""Seconds that the listener goes on when nobody waits."""
ENDING = 2.0
"""Seconds that its end is waited for: it may be connecting."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two attempts."""

PING = packed(["PING"])


class NotHeard(Exception):  # noqa: N818 - it names a fact, and never leaves this module
    """The server was asked to say something, and was not heard."""


class Listener:
    """A thread that is there while somebody waits.

    It calls `heard` with each message, and `changed` when it begins to hear or no longer does: calls may have been
    missed.
    """

    def __init__(
        self, server: Server, channel: str, *, heard: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self._server = server
        self._subscribe = packed(["SUBSCRIBE", channel])
        self._heard = heard
        self._changed = changed
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._linger_until = 0.0
        self._hears: bool | None = None
        self._is_pointless = False
        self._thread: threading.Thread | None = None
        self._waker: socket.socket | None = None
        self._opened: list[object] = []

    @property
    def hears(self) -> bool:
        """Whether calls are heard, as far as can be known."""
        return self._hears is True

    def attend(self) -> None:
        """Listen, for somebody waits."""
        with self._lock:
            self._linger_until = time.monotonic() + LINGER
            if self._thread is None and self._is_wanted():
                self._start()

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            thread = self._thread
            if self._waker is not None:
                self._waker.send(b"!")
        if thread is not None and thread is not threading.current_thread():
            thread.join(ENDING)

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread is gone, and its connection is the parent's."""
        forks.abandon(self._opened)
        self._begin()

    def _start(self) -> None:
        waker, woken = socket.socketpair()
        thread = threading.Thread(target=self._run, args=(woken,), name="tenure-listener", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # none can be started while the interpreter ends
            waker.close()
            woken.close()
            return
        self._thread, self._waker = thread, waker
        self._opened = [waker, woken]

    def _run(self, woken: socket.socket) -> None:
        pause = SHORTEST_PAUSE
        with woken:
            while not self._is_over():
                try:
                    self._attempt(woken)
                except NoPermissionError as exc:
                    self._is_pointless = True
                    self._note(hears=False, reason=exc)
                except (RedisError, OSError, TenureError, NotHeard) as exc:
                    pause = SHORTEST_PAUSE if self._hears else pause
                    self._note(hears=False, reason=exc)
                    self._closing.wait(pause * random.uniform(0.5, 1.0))
                    pause = min(2 * pause, LONGEST_PAUSE)

    def _is_over(self) -> bool:
        """Tell whether to end; if so, the next who waits starts another."""
        with self._lock:
            if self._is_wanted():
                return False
            self._hears = None
            self._thread = None
            if self._waker is not None:
                self._waker.close()
            self._waker = None
            return True

    def _is_wanted(self) -> bool:
        return not self._is_pointless and not self._closing.is_set() and time.monotonic() < self._linger_until

    def _attempt(self, woken: socket.socket) -> None:
        """Listen for as long as that is wanted, and possible."""
        turn = self._server.turn
        wire = self._server.connect()
        self._opened.append(wire)
        try:
            wire.ask(self._subscribe)
            self._note(hears=True)
            self._hear(wire, woken, turn)
        finally:
            wire.close()
            self._opened.remove(wire)

    def _hear(self, wire: Wire, woken: socket.socket, turn: int) -> None:
        poll = select.poll()
        poll.register(wire.fileno(), select.POLLIN)
        poll.register(woken, select.POLLIN)
        prove_at, proven_by = _after_silence(), None
        while self._is_wanted():
            now = time.monotonic()
            if proven_by is None and now >= prove_at:
                wire.send(PING)
                proven_by = now + PROOF
            acts_at = prove_at if proven_by is None else proven_by
            poll.poll(1000 * max(0.0, min(acts_at, self._linger_until) - now))
            said = wire.heard()
            if said:
                prove_at, proven_by = _after_silence(), None
            elif proven_by is not None and time.monotonic() >= proven_by:
                raise NotHeard(f"the server was not heard within {PROOF:g} s")
            for kind, *_, message in said:
                if kind == b"message":
                    self._heard(message.decode(errors="replace"))
            # In a cluster a call is heard at every node; unless one is where it is made, all are called.
            if turn != self._server.turn:
                raise NotHeard("another server may be the one to ask")

    def _note(self, *, hears: bool, reason: Exception | None = None) -> None:
        if hears == self._hears:
            return
        was_deaf, self._hears = self._hears is False, hears
        store = self._server.address.shown
        if hears:
            # Who was told that they are not is told that they are again.
            level = logging.INFO if was_deaf else logging.DEBUG
            log.log(level, "wake-ups are heard", extra={"store": store})
        else:
            why = " ".join(str(reason).split())
            facts = {"store": store, "reason": why}
            log.info("wake-ups are not heard, and jobs are found by looking: %s", why, extra=facts)
        self._changed()


def _after_silence() -> float:
    return time.monotonic() + SILENCE * random.uniform(0.8, 1.2)
