"""The connections of this process, each used by one thread at a time.

Errors of the driver leave it as they are.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tenure.backends.redis import errors as trouble
from tenure.backends.redis.address import Address
from tenure.backends.redis.connection import Wire
from tenure.backends.shared import forking as forks
from tenure.backends.shared.checkout import Lending, Loan


class Pool:
    def __init__(self, address: Address, connect: Callable[[], Wire]) -> None:
        self._address = address
        self._connect = connect
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Wire] = []
        self._lending: Lending[Wire] = Lending(self._address.connections)
        self.turn = 0
        self._is_closed = False
        self.was_open = False

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        """Give a connection that nobody else uses meanwhile; wait for one if all are in use."""
        loan: Loan[Wire] = Loan()
        try:
            if not self._lending.has_lent_within(self._address.timeout, loan):
                raise trouble.all_in_use(self._address)
            turn = self.turn
            loan.wire = self._take()
            try:
                yield loan.wire
            finally:
                self._put_back(loan.wire, turn)
        finally:
            self._lending.end(loan)

    def renew(self) -> None:
        """Have everyone connect anew: these may lead to a server that is no longer the one to ask."""
        with self._lock:
            self.turn += 1
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()

    def close(self) -> None:
        self._is_closed = True
        self.renew()

    def after_fork_in_child(self) -> None:
        """Begin anew: the connections are the parent's."""
        forks.abandon([*self._idle, *self._lending.loans])
        self._begin()

    def _take(self) -> Wire:
        while True:
            with self._lock:
                wire = self._idle.pop() if self._idle else None
            if wire is None:
                wire = self._connect()
                self.was_open = True
                return wire
            if wire.is_usable():
                return wire
            wire.close()

    def _put_back(self, wire: Wire, turn: int) -> None:
        with self._lock:
            is_kept = wire.is_open and turn == self.turn and not self._is_closed
            if is_kept:
                self._idle.append(wire)
        if not is_kept:
            wire.close()
