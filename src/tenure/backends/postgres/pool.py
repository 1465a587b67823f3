"""The connections of this process, each used by one thread at a time.

Errors of the driver leave it as they are.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tenure.backends.postgres import errors as trouble
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.connector import Sessions
from tenure.backends.postgres.migrations import Migrations
from tenure.backends.postgres.pipeline import ROLLBACK, Step, Wire
from tenure.backends.shared import forking as forks
from tenure.backends.shared.checkout import Lending, Loan


class Pool:
    def __init__(self, address: Address, sessions: Sessions, migrations: Migrations) -> None:
        self._address = address
        self._sessions = sessions
        self._migrations = migrations
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Wire] = []
        self._lending: Lending[Wire] = Lending(self._address.connections)
        self._is_closed = False
        self.was_open = False

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        """Give a connection that nobody else uses meanwhile; wait for one if all are in use."""
        loan: Loan[Wire] = Loan()
        try:
            if not self._lending.has_lent_within(self._address.timeout, loan):
                raise trouble.all_in_use(self._address)
            loan.wire = self._take()
            with self._in_use(loan) as wire:
                yield wire
        finally:
            self._lending.end(loan)

    @contextmanager
    def wire_to_spare(self) -> Iterator[Wire | None]:
        """Give a connection, or None if there is none: who has one and waits for another might wait for ever."""
        loan: Loan[Wire] = Loan()
        try:
            if self._lending.has_lent(loan) and self._has_taken(loan):
                with self._in_use(loan) as wire:
                    yield wire
            else:
                yield None
        finally:
            self._lending.end(loan)

    def send_whole(self) -> None:
        """Prepare no more: another session answered than the one that prepared."""
        self._sessions.send_whole()
        self._close_idle()

    def close(self) -> None:
        self._is_closed = True
        self._close_idle()

    def after_fork_in_child(self) -> None:
        """Begin anew: the connections are the parent's."""
        forks.abandon([*self._idle, *self._lending.loans])
        self._begin()

    @contextmanager
    def _in_use(self, loan: Loan[Wire]) -> Iterator[Wire]:
        try:
            yield loan.wire
        finally:
            self._put_back(loan.wire)

    def _has_taken(self, loan: Loan[Wire]) -> bool:
        try:
            loan.wire = self._take()
        except (psycopg.Error, OSError):  # the server may have no room for another
            return False
        return True

    def _take(self) -> Wire:
        while True:
            with self._lock:
                wire = self._idle.pop() if self._idle else None
            if wire is None:
                return self._connect()
            if wire.is_usable():
                return wire
            wire.close()

    def _connect(self) -> Wire:
        connection = self._sessions.connect()
        try:
            self._migrations.see_to(connection)
            wire = self._sessions.wire(connection)
        except BaseException:
            connection.close()
            raise
        self.was_open = True
        return wire

    def _put_back(self, wire: Wire) -> None:
        if wire.is_open and not wire.is_usable():
            try:
                wire.ask([Step(ROLLBACK)])
            except psycopg.Error:
                wire.close()
        with self._lock:
            is_kept = wire.is_usable() and wire.prepares is self._sessions.prepares and not self._is_closed
            if is_kept:
                self._idle.append(wire)
        if not is_kept:
            wire.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()
