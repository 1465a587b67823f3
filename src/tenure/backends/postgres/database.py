"""The server as this process has it open, and what is done when it does not answer.

An operation is one transaction and, if nothing has to be decided in between, one round trip. It is done again, on
another connection, if its answer was lost and it may be repeated: such requests change nothing twice.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from tenure.backends.postgres import errors as trouble
from tenure.backends.postgres.address import Address
from tenure.backends.postgres.connector import Sessions
from tenure.backends.postgres.migrations import Migrations
from tenure.backends.postgres.pipeline import COMMIT, Step, Wire
from tenure.backends.postgres.pool import Pool
from tenure.backends.postgres.statements import Statements, statements_in, texts_in, way_of
from tenure.backends.postgres.transactions import Transactions
from tenure.backends.protocol import Clock
from tenure.connections.caller import Caller, caller_of
from tenure.connections.refusals import CallersOwn
from tenure.core.operations import Schema

T = TypeVar("T")

Ask = Callable[[Sequence[Step]], list[Any]]
"""Sends steps to the server, and returns what each answers."""

MOST_COLLISIONS = 10
"""How often a transaction that the server gave up for another's sake is tried again."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.5


class Database:
    """The connections of one handle. If it is bare, it looks for no tables of ours: the user's own are what counts."""

    def __init__(self, address: Address, *, clock: Clock | None) -> None:
        self.address = address
        self.statements = statements_in(address.schema)
        self.texts = texts_in(address.schema)
        self._clock = clock
        self.sessions = Sessions(address)
        self._migrations = Migrations(address, self.sessions)
        self._pool = Pool(address, self.sessions, self._migrations)
        self.transactions = Transactions(address, self.sessions)
        self._identity: str | None = None

    def asking(self, queues: Sequence[str] | None, types: Sequence[str] | None) -> Statements:
        """Return the statements for those who ask for these queues and types; None is all."""
        return statements_in(self.address.schema, way_of(queues, types))

    def now(self) -> datetime | None:
        """Return the moment that a test has set; None if the server's clock counts."""
        return None if self._clock is None else self._clock()

    def ask(self, steps: Sequence[Step], *, may_repeat: bool = True) -> list[Any]:
        """Do these statements in one transaction and one round trip; return what each answers."""

        def in_one_trip() -> list[Any]:
            with self._pool.wire() as wire:
                return _answers(wire, wire.ask(_committed(wire, steps)))

        return self._do(in_one_trip, may_repeat=may_repeat)

    def ask_both(self, first: Sequence[Step], second: Sequence[Step]) -> tuple[list[Any], list[Any]]:
        """Do these in two transactions at the same time, or in one if there is no connection to spare.

        Both must be such as may be repeated.
        """

        def side_by_side() -> tuple[list[Any], list[Any]]:
            with self._pool.wire() as wire, self._pool.wire_to_spare() as spare:
                if spare is None:
                    answers = _answers(wire, wire.ask(_committed(wire, [*first, *second])))
                    return answers[: len(first)], answers[len(first) :]
                wire.send(_committed(wire, first))
                spare.send(_committed(spare, second))
                try:
                    answers = _answers(wire, wire.receive())
                finally:
                    # It must not be claiming still when all of this is asked again.
                    others = _answers(spare, spare.receive())
                return answers, others

        return self._do(side_by_side, may_repeat=True)

    def talk(self, talking: Callable[[Ask], T], *, may_repeat: bool = True) -> T:
        """Do something that has to be decided in between, in one transaction; return what it returns.

        It gets a function that asks the server, and it may be called again from the beginning.
        """

        def in_a_transaction() -> T:
            with self._pool.wire() as wire:
                wire.ask(wire.opening)
                answer = talking(wire.ask)
                wire.ask([Step(COMMIT)])
                return answer

        return self._do(in_a_transaction, may_repeat=may_repeat)

    def identity(self) -> str:
        """Return which store this is; its schema is there then."""
        if self._identity is None:
            (self._identity,) = self.ask([Step(self.statements["join"]["store"])])
        return str(self._identity)

    def is_open(self, number: str) -> bool:
        """Tell whether a transaction of this number goes on, whoever's it is."""
        (is_open,) = self.ask([Step(self.statements["join"]["is open"], {"number": number})])
        return bool(is_open)

    def forget_identity(self) -> None:
        """Ask anew when it is next asked for: the store may have been made anew."""
        self._identity = None

    @contextmanager
    def joining(self, connection: object, lacking: str | None = None) -> Iterator[Caller]:
        """Give a connection of the caller's as it is used here. What it raises goes on, unless it can be explained.

        `lacking` says what is not there, if that is no store.
        """
        try:
            yield caller_of(connection)
        except CallersOwn as exc:
            raise exc.error from exc.error.__cause__
        except Exception as exc:
            told = trouble.of_the_caller(self.address, exc, lacking)
            if told is None:
                raise
            raise told from exc

    def migrate(self) -> Schema:
        """Bring the schema up to date, whatever the URL says about that."""
        with self._told():
            return self._migrations.apply()

    def outstanding(self) -> str:
        """Return what `migrate` would do, as SQL."""
        with self._told():
            return self._migrations.outstanding()

    def close(self) -> None:
        self.transactions.close()
        self._pool.close()

    def _do(self, action: Callable[[], T], *, may_repeat: bool) -> T:
        ends_at = time.monotonic() + self.address.timeout
        collisions = 0
        pause = SHORTEST_PAUSE
        while True:
            try:
                return action()
            except (psycopg.Error, OSError) as exc:
                if trouble.is_forgotten(exc):
                    self._pool.send_whole()
                collisions += 1
                # It may be restarting; but one that was never there is told about at once.
                is_worth_it = trouble.is_lost(exc) and may_repeat and self._pool.was_open and time.monotonic() < ends_at
                if not is_worth_it and not (trouble.is_collision(exc) and collisions < MOST_COLLISIONS):
                    raise trouble.told(self.address, exc) from exc
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as exc:
            raise trouble.told(self.address, exc) from exc


def _committed(wire: Wire, steps: Sequence[Step]) -> list[Step]:
    return [*wire.opening, *steps, Step(COMMIT)]


def _answers(wire: Wire, all_of_them: list[Any]) -> list[Any]:
    """Return what the steps between opening and commit answer."""
    return all_of_them[len(wire.opening) : -1]
