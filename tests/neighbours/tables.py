"""The rows of a table as members: a mapped table or one with a sidecar, on SQLite or PostgreSQL."""
# ruff: noqa: S608 - statements contain the names of tables

import sqlite3
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import psycopg

import tenure
from tenure.core.job import Job, State
from tests.neighbours import row_guards, row_kinds
from tests.neighbours.board import Board
from tests.neighbours.locks import LockPlan
from tests.neighbours.members import Kind, Member, chosen
from tests.neighbours.settings import ABANDONED_LEASE, BACKOFF, BEFORE_START, DEAD, LEASE, MAX_ATTEMPTS
from tests.neighbours.target import Target

WORDS: dict[State, str] = {
    State.QUEUED: "pending",
    State.RUNNING: "processing",
    State.COMPLETED: "done",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}
OWN_WORDS: dict[State, str] = {state: state.value for state in State}
CLAIMED_AT_ONCE = 100
ABANDONED = ("abandoned", "refuses_reap", "unknown_if_done_abandoned")


class TableTarget(Target):
    """A table `members` with the key `id`."""

    name = "members"
    is_open: str
    done_if: str

    def __init__(self, *, url: str, is_sidecar: bool) -> None:
        self._url, self._is_sidecar = url, is_sidecar
        self._words = OWN_WORDS if is_sidecar else WORDS
        self._state_column = "state" if is_sidecar else "status"
        self._table = self._open_table()

    @property
    def options(self) -> dict[str, Any]:
        return {"url": self._url, "is_sidecar": self._is_sidecar}

    def create(self) -> None:
        """Create the table with its constraints and triggers."""
        self._create_table()
        self._table.migrate()
        self._create_guards()

    def member(self, position: int, kind: Kind) -> Member:
        return Member(str(position + 1), kind, position)

    def prepare(self, members: Sequence[Member]) -> None:
        if ids := chosen(members, "cancelled_queued"):
            self._table.cancel(ids)
        if chosen(members, "abandoned_twice", *ABANDONED):
            self._abandon("abandoned_twice")
            time.sleep(ABANDONED_LEASE)
            self._abandon("abandoned_twice")
            for kind in ABANDONED:
                self._abandon(kind)
            time.sleep(BEFORE_START)

    def _abandon(self, kind: str) -> None:
        """Claim rows of a kind for a worker that never settles."""
        with self._open_table(f"kind = '{kind}' and {self.is_open}") as table:
            while table.claim(limit=CLAIMED_AT_ONCE, lease=ABANDONED_LEASE, worker=DEAD):
                pass

    def open_source(self, board: Board) -> tenure.Table[Any]:
        table = self._open_table()
        row_kinds.add_handler(table, board, self._mark_done)
        return table

    def states(self) -> Counter[tuple[str, State]]:
        by_word = {word: state for state, word in self._words.items()}
        rows = self._rows(self._states_query())
        return Counter({(kind, by_word[word]): number for kind, word, number in rows})

    def find(self) -> Iterator[Job]:
        return self._table.find()

    def is_whole(self) -> bool:
        return not any(finding.severity == "error" for finding in self._table.check())

    def close(self) -> None:
        self._table.close()

    def _states_query(self) -> str:
        if not self._is_sidecar:
            return f"select kind, status, count(*) from {self.name} group by 1, 2"
        return (
            f"select kind, coalesce(home.state, 'queued'), count(*) from {self.name} member "
            f"left join {self._home} home on home.id = member.id group by 1, 2"
        )

    def _open_table(self, where: str | None = None) -> tenure.Table[Any]:
        options: dict[str, Any] = (
            {"sidecar": True}
            if self._is_sidecar
            else {
                "columns": {"state": "status", "error": "last_error"},
                "states": {state.value: word for state, word in self._words.items()},
            }
        )
        return tenure.Table(
            self._url,
            self.name,
            where=where or (self.is_open if self._is_sidecar else None),
            order_by="id",
            done_if=self.done_if,
            lease=LEASE,
            max_attempts=MAX_ATTEMPTS,
            backoff=BACKOFF,
            **options,
        )

    @property
    def _home(self) -> str:
        """The table with the states."""
        return self.name.replace("members", "tenure_members") if self._is_sidecar else self.name

    @abstractmethod
    def _create_table(self) -> None: ...

    @abstractmethod
    def _create_guards(self) -> None: ...

    @abstractmethod
    def _rows(self, query: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _mark_done(self, connection: Any, id: int) -> None:
        """Write to the row in the transaction of its completion."""


class SQLiteTableTarget(TableTarget):
    kinds = (*row_kinds.KINDS, *row_kinds.SQLITE_KINDS)
    is_open = "is_done = 0"
    done_if = row_guards.SQLITE_DONE

    def __init__(self, *, path: str, is_sidecar: bool) -> None:
        self._path = path
        super().__init__(url=f"sqlite:///{path}?synchronous=normal&timeout=60", is_sidecar=is_sidecar)

    @property
    def options(self) -> dict[str, Any]:
        return {"path": self._path, "is_sidecar": self._is_sidecar}

    def fill(self, members: Sequence[Member]) -> None:
        statement = "insert into members (id, kind, is_done, facts, note) values ({}, '{}', {})"
        with closing(sqlite3.connect(self._path)) as db, db:
            for member in members:
                values = row_guards.SQLITE_VALUES.get(member.kind.name, row_guards.SQLITE_PLAIN)
                db.execute(statement.format(member.id, member.kind.name, values))

    def _create_table(self) -> None:
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute("pragma journal_mode = wal")
            db.execute(row_guards.SQLITE_TABLE)
            db.execute(row_guards.SQLITE_INDEX)

    def _create_guards(self) -> None:
        with closing(sqlite3.connect(self._path)) as db, db:
            for trigger in row_guards.sqlite_guards(self._home, self._state_column, self._words):
                db.execute(trigger)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        # Read-only: a connection that bypasses the lock of tenure must not write while workers run.
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=60)) as db:
            return db.execute(query).fetchall()

    def _mark_done(self, connection: Any, id: int) -> None:
        connection.execute("update members set is_done = 1 where id = ?", (id,))


class PostgresTableTarget(TableTarget):
    kinds = (*row_kinds.KINDS, *row_kinds.POSTGRES_KINDS)
    is_open = "not members.is_done"

    def __init__(self, *, server: str, schema: str, is_sidecar: bool) -> None:
        self._server, self._schema = server, schema
        self.name = f"{schema}.members"
        self.done_if = row_guards.POSTGRES_DONE.format(schema=schema)
        super().__init__(url=f"{server}{'&' if '?' in server else '?'}timeout=60", is_sidecar=is_sidecar)

    @property
    def options(self) -> dict[str, Any]:
        return {"server": self._server, "schema": self._schema, "is_sidecar": self._is_sidecar}

    def fill(self, members: Sequence[Member]) -> None:
        ids, kinds = [int(member.id) for member in members], [member.kind.name for member in members]
        with psycopg.connect(self._server) as connection:
            connection.execute(row_guards.POSTGRES_INSERT.format(schema=self._schema).encode(), [ids, kinds])
            connection.execute(row_guards.POSTGRES_CUSTOMERS.format(schema=self._schema).encode())

    def lock_plan(self, members: Sequence[Member]) -> LockPlan | None:
        def ids(kind: str) -> list[int]:
            return list(map(int, chosen(members, kind)))

        where = f"id = any(%s) and {self._state_column} = '{self._words[State.RUNNING]}'"
        return LockPlan(
            url=self._server,
            first=[
                (f"select id from {self.name} where id = any(%s) for update", ids("locked_queued")),
                (f"update {self.name} set note = 'open' where id = any(%s)", ids("locked_update")),
                (
                    f"select id from {self._schema}.customers where id = any(%s) for update",
                    ids("blocked_claim") + ids("blocked_end"),
                ),
            ],
            while_running=f"select id from {self._home} where {where} for update skip locked",
            running_ids=ids("locked_held"),
        )

    def _create_table(self) -> None:
        self._rows(f"create schema {self._schema}")
        self._rows(row_guards.POSTGRES_TABLE.format(schema=self._schema, refusal=row_kinds.REFUSAL))

    def _create_guards(self) -> None:
        self._rows(row_guards.postgres_guard(self._schema, self._home, self._state_column, self._words))

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._server, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def _mark_done(self, connection: Any, id: int) -> None:
        connection.execute(f"update {self.name} set is_done = true where id = {id}")
