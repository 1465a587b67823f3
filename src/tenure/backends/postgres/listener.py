"""Hear the rings of all processes, on a connection of its own.

A connection that says nothing may be one on which nothing can be heard: it is broken on the way, or leads to a pooler
that gives its sessions to others. So the listener has itself rung, at first and after each silence, by way of another
connection. Until it hears that nobody relies on it, and those who wait look more often.
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
from tenure.backends.postgres.connector import NobodyListens
from tenure.backends.postgres.notifier import Ring, channel_of, ring_of
from tenure.backends.postgres.pipeline import Step, Wire
from tenure.backends.postgres.statements import quoted, statement

log = logging.getLogger(__name__)

SILENCE = 30.0
"""Seconds without a ring, about, after which the listener has itself rung."""
PROOF = 2.0
"""Seconds within which it then has to hear that."""
LINGER = 60.0
"""Seconds that it goes on when nobody waits."""
ENDING = 2.0
"""Seconds that its end is waited for: it may be connecting."""

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
LONGEST_PAUSE_IF_DEAF = 60.0
"""Seconds between two attempts; longer where one succeeds and does not help."""

STAY = statement("set idle_session_timeout = 0")


class NotHeard(Exception):  # noqa: N818 - it names a fact, and never leaves this module
    """The listener had itself rung, and did not hear it."""


class Listener:
    """A thread that is there while somebody waits.

    It calls `heard` with each ring of others, and `changed` when it begins to hear or no longer does.
    """

    def __init__(
        self,
        address: Address,
        name: str,
        *,
        connect: Callable[[], psycopg.Connection[Any]],
        ring: Callable[[Collection[str]], None],
        heard: Callable[[Ring], None],
        changed: Callable[[], None],
    ) -> None:
        self._address = address
        self._listen = statement(f"listen {quoted(channel_of(address.schema))}")
        self._name = name
        self._connect = connect
        self._ring = ring
        self._heard = heard
        self._changed = changed
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
        """Whether rings are heard, as far as can be known."""
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
        if thread is not None:
            thread.join(ENDING)

    def opened(self) -> list[object]:
        """Return what a child of this process has to leave alone."""
        return self._opened

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
                except NobodyListens as exc:
                    self._is_pointless = True
                    self._note(hears=False, reason=exc)
                except (psycopg.Error, OSError, NotHeard) as exc:
                    pause = SHORTEST_PAUSE if self._hears else pause
                    self._note(hears=False, reason=exc)
                    self._closing.wait(pause * random.uniform(0.5, 1.0))
                    pause = min(2 * pause, LONGEST_PAUSE_IF_DEAF if isinstance(exc, NotHeard) else LONGEST_PAUSE)

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
        wire = Wire(self._connect(), PROOF, prepares=False)
        self._opened.append(wire)
        try:
            wire.ask([Step(STAY), Step(self._listen)])
            self._hear(wire, woken)
        finally:
            wire.close()
            self._opened.remove(wire)

    def _hear(self, wire: Wire, woken: socket.socket) -> None:
        poll = select.poll()
        poll.register(wire.fileno(), select.POLLIN)
        poll.register(woken, select.POLLIN)
        prove_at, proven_by = 0.0, None
        while self._is_wanted():
            now = time.monotonic()
            if proven_by is None and now >= prove_at:
                self._ring(())
                proven_by = now + PROOF
            acts_at = prove_at if proven_by is None else proven_by
            poll.poll(1000 * max(0.0, min(acts_at, self._linger_until) - now))
            rings = [ring_of(text) for text in wire.heard()]
            if rings:
                prove_at = time.monotonic() + SILENCE * random.uniform(0.8, 1.2)
            if any(ring.sender == self._name for ring in rings):
                proven_by = None
                self._note(hears=True)
            elif proven_by is not None and time.monotonic() >= proven_by:
                raise NotHeard(f"a ring was not heard within {PROOF:g} s")
            for ring in rings:
                if ring.sender != self._name:
                    self._heard(ring)

    def _note(self, *, hears: bool, reason: Exception | None = None) -> None:
        if hears == self._hears:
            return
        was_deaf, self._hears = self._hears is False, hears
        if hears:
            # Who was told that they are not is told that they are again.
            level = logging.INFO if was_deaf else logging.DEBUG
            log.log(level, "wake-ups are heard", extra={"store": self._address.shown})
        else:
            why = " ".join(str(reason).split())
            facts = {"store": self._address.shown, "reason": why}
            log.info("wake-ups are not heard, and jobs are found by looking: %s", why, extra=facts)
        self._changed()
