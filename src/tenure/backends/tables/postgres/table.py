"""The operations on a table of the user's on PostgreSQL, each one transaction."""

from asyncio import AbstractEventLoop
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from tenure.backends.postgres.address import address_of
from tenure.backends.postgres.database import Database
from tenure.backends.protocol import SWEEP, Clock
from tenure.backends.tables.postgres import claim as claiming
from tenure.backends.tables.postgres import doctor
from tenure.backends.tables.postgres import migrate as migrating
from tenure.backends.tables.postgres import move as moving
from tenure.backends.tables.postgres import read as reading
from tenure.backends.tables.postgres import settle as settling
from tenure.backends.tables.postgres.bound_table import Place
from tenure.backends.tables.postgres.caller_transaction import Joined, joining
from tenure.backends.tables.postgres.wait import Waiting
from tenure.backends.tables.protocol import Finding
from tenure.core.job import State
from tenure.core.operations import (
    Claimed,
    ClaimRequest,
    Extension,
    Holding,
    Move,
    Moved,
    Page,
    Query,
    Reaped,
    Settlement,
    Standing,
    Stats,
)
from tenure.core.table.spec import TableSpec
from tenure.core.transitions import move_note


class PostgresTable:
    """A `TableStore`. It shares the connections of a store, unless it owns them; then it closes them."""

    is_exclusive: ClassVar[bool] = False

    def __init__(self, database: Database, spec: TableSpec, *, is_owner: bool = False) -> None:
        self.spec = spec
        self._database = database
        self._is_owner = is_owner
        self._place = Place(database, spec)
        self._waiting = Waiting(self._place)

    def claim(self, request: ClaimRequest) -> Claimed:
        if not reading.is_asked_for(self._place, request.queues, request.types):
            self._place.ask([settling.reap_expired(self._place, SWEEP)])
            return Claimed(jobs=[])
        return claiming.claim(self._place, request)

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        return settling.extend(self._place, extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        landed = settling.settle(self._place, settlements)
        self._call_for(settlements)
        return landed

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        if not settlements or not reading.is_asked_for(self._place, request.queues, request.types):
            return self.settle(settlements), self.claim(request)
        answer = self._exchange(settlements, request)
        self._call_for(settlements)
        return answer

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        step = (
            settling.reap_expired(self._place, limit)
            if worker is None
            else settling.reap_worker(self._place, worker, started, limit)
        )
        (rows,) = self._place.ask([step], may_repeat=False)
        reaped = settling.reaped(self._place, rows)
        if any(each.state is State.QUEUED for each in reaped):
            self._waiting.call()
        return reaped

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        moved = moving.move(self._place, ids, move, move_note(move, reason))
        if any(each.moved and each.state is State.QUEUED for each in moved):
            self._waiting.call()
        return moved

    def find(self, query: Query) -> Page:
        return reading.find(self._place, query)

    def stats(self) -> Stats:
        return reading.stats(self._place)

    def standing(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> Standing | None:
        return reading.standing(self._place, id, queues, types)

    def already_done(self, ids: Sequence[str]) -> list[bool]:
        return reading.already_done(self._place, ids)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        self._waiting.wait(queues, types, timeout)

    def migrate(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        done = migrating.migrate(
            self._database, self.spec, adopt_running_after=adopt_running_after, functions=functions
        )
        self._place.forget()
        return done

    def outstanding(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        return migrating.outstanding(
            self._database, self.spec, adopt_running_after=adopt_running_after, functions=functions
        )

    def texts(self) -> Mapping[str, str]:
        return migrating.texts(self._database, self.spec)

    def examine(self) -> list[Finding]:
        return doctor.examine(self._database, self.spec)

    @contextmanager
    def transaction(self, loop: AbstractEventLoop | None = None) -> Iterator[Any]:
        """Give a connection of psycopg for the caller's statements: committed on leaving, or undone."""
        with self._database.transactions.begun(loop) as connection:
            yield connection

    @contextmanager
    def joined(self, connection: object) -> Iterator[Joined]:
        """Give the operations that can be part of the transaction on a connection of the caller's."""
        with joining(self._place, connection) as joined:
            yield joined

    def close(self) -> None:
        self._waiting.close()
        if self._is_owner:
            self._database.close()

    def _exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        ending = settling.Settling(self._place, settlements)
        answers = claiming.answers_to(self._place, ending.steps, request)
        landed = ending.landed(answers[: len(ending.steps)])
        return landed, claiming.outcome(self._place, request, answers[-1])

    def _call_for(self, settlements: Sequence[Settlement]) -> None:
        """Let somebody look who waits here, if claims ended so that their rows are due again."""
        if any(each.state is State.QUEUED for each in settlements):
            self._waiting.call()


def open_table(url: str, shown: str, spec: TableSpec, *, clock: Clock | None = None) -> PostgresTable:
    """Return a table in the database that a URL names; nothing else has to be there, and nothing is made."""
    address = replace(address_of(url, shown), is_bare=True)
    return PostgresTable(Database(address, clock=clock), spec, is_owner=True)
