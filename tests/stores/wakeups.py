"""Stores whose waits end when a job becomes claimable, and how a test observes the waits of each."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import pytest

from tenure.backends.memory import Memory
from tenure.backends.postgres import PostgreSQL, notifier
from tenure.backends.postgres import listener as postgres_listening
from tenure.backends.protocol import Backend
from tenure.backends.redis import Redis
from tenure.backends.redis import listener as redis_listening
from tenure.backends.sqlite import SQLite
from tests.postgres import waiting as postgres_waiting
from tests.postgres.stores import Place as Schema
from tests.redis import waiting as redis_waiting
from tests.redis.stores import Place as Prefix
from tests.servers import cluster, redis
from tests.servers.postgres import OwnServer
from tests.servers.redis import DURABLE, OwnRedis
from tests.servers.servers import Servers, shared_names, shared_redis_names
from tests.stores.waiting import LIMIT, wait_after_look
from tests.worker.looking import until

ON_SERVERS = [*shared_names(), *shared_redis_names()]
EVERYWHERE = ["memory", "sqlite", *ON_SERVERS]
OWN_SERVERS = [*cluster.names(), *redis.names()]

S = TypeVar("S", bound=Backend)


class Home(ABC, Generic[S]):
    """An initially empty store, and its handles."""

    def __init__(self) -> None:
        self._opened: list[S] = []

    def open(self) -> S:
        """Return a second handle, as in another process."""
        self._opened.append(self._new_handle())
        return self._opened[-1]

    def close(self) -> None:
        for each in self._opened:
            each.close()

    def listen(self, store: S) -> None:
        """Wait until the handle receives notifications; without a server it always does."""

    def hear_call(self, store: S, queue: str) -> None:
        """Wait until the handle has received a notification for this queue; without a server, return at once."""

    @abstractmethod
    def waiting(self, store: S, queue: str) -> AbstractContextManager[threading.Thread]:
        """Wait for jobs of this queue, in a thread that has polled without success."""

    @abstractmethod
    def _new_handle(self) -> S: ...


class MemoryHome(Home[Memory]):
    """All handles are the same object."""

    def __init__(self) -> None:
        super().__init__()
        self._store = Memory()

    def waiting(self, store: Memory, queue: str) -> AbstractContextManager[threading.Thread]:
        return wait_after_look(store, [queue], has_looked=lambda: store._waiters._waiting)

    def _new_handle(self) -> Memory:
        return self._store


class SeenEvent(threading.Event):
    """An event that records whether a thread waits for it."""

    is_awaited = False

    def wait(self, timeout: float | None = None) -> bool:
        self.is_awaited = True
        return super().wait(timeout)


class SQLiteHome(Home[SQLite]):
    """Handles on one file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / "jobs.db"

    def waiting(self, store: SQLite, queue: str) -> AbstractContextManager[threading.Thread]:
        store._closing = event = SeenEvent()
        return wait_after_look(store, [queue], has_looked=lambda: event.is_awaited)

    def _new_handle(self) -> SQLite:
        return SQLite(self._path, synchronous="normal", timeout=LIMIT)


class ServerHome(Home[S]):
    """Handles on a server, with separate connections and listeners."""

    @property
    @abstractmethod
    def listener(self) -> type[Any]:
        """The class of the listener thread."""

    @abstractmethod
    def connections(self) -> int:
        """Return the number of connections from the handles of this store to the server."""

    @abstractmethod
    def let_closing_take_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the close of a handle wait for its threads as long as a test does, not two seconds."""


class PostgresHome(ServerHome[PostgreSQL]):
    listener = postgres_listening.Listener

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self._schema = schema

    def listen(self, store: PostgreSQL) -> None:
        postgres_waiting.listen(store)

    def hear_call(self, store: PostgreSQL, queue: str) -> None:
        until(lambda: store._waiter._wait_groups.group_for([queue], None)._is_woken)

    def waiting(self, store: PostgreSQL, queue: str) -> AbstractContextManager[threading.Thread]:
        return postgres_waiting.waiting(store, queue)

    def connections(self) -> int:
        of_this_home = "select count(*) from pg_stat_activity where application_name = %s"
        ((number,),) = self._schema.execute(of_this_home, self._schema.schema)
        return int(number)

    def let_closing_take_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_listening, "CLOSE_TIMEOUT", LIMIT)
        monkeypatch.setattr(notifier, "FLUSH_TIMEOUT", LIMIT)

    def _new_handle(self) -> PostgreSQL:
        return self._schema.open(f"&application_name={self._schema.schema}")


class RedisHome(ServerHome[Redis]):
    listener = redis_listening.Listener

    def __init__(self, prefix: Prefix) -> None:
        super().__init__()
        self._prefix = prefix

    def listen(self, store: Redis) -> None:
        redis_waiting.listen(store)

    def hear_call(self, store: Redis, queue: str) -> None:
        until(lambda: store._waiter._wait_groups.group_for([queue], None)._is_woken)

    def waiting(self, store: Redis, queue: str) -> AbstractContextManager[threading.Thread]:
        return redis_waiting.waiting(self._prefix, store, [queue])

    def connections(self) -> int:
        return [each["name"] for each in self._prefix.execute("CLIENT LIST")].count(self._prefix.prefix)

    def let_closing_take_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(redis_listening, "CLOSE_TIMEOUT", LIMIT)

    def _new_handle(self) -> Redis:
        return self._prefix.open(f"&client_name={self._prefix.prefix}")


@dataclass(frozen=True, slots=True)
class OwnHome:
    """A store on a server that only this test uses, and may kill."""

    home: ServerHome[Any]
    server: OwnServer | OwnRedis


@contextmanager
def new_home(name: str, servers: Servers) -> Iterator[Home[Any]]:
    """Yield an empty store of this name."""
    if name == "memory":
        with closing(MemoryHome()) as memory:
            yield memory
    elif name == "sqlite":
        with TemporaryDirectory(prefix="tenure-test-") as folder, closing(SQLiteHome(Path(folder))) as sqlite:
            yield sqlite
    else:
        with new_server_home(name, servers) as home:
            yield home


@contextmanager
def new_server_home(name: str, servers: Servers) -> Iterator[ServerHome[Any]]:
    """Yield an empty store of this name, on a server that other tests use too."""
    if name in shared_names():
        server = servers.shared(name)
        schema = servers.schemas.take(server)
        with closing(PostgresHome(Schema(server.url, schema))) as postgres:
            yield postgres
        servers.schemas.give_back(server, schema)
    else:
        redis_server = servers.shared_redis(name)
        prefix = servers.prefixes.take()
        with closing(RedisHome(Prefix(redis_server.url, prefix))) as home:
            yield home
        servers.prefixes.give_back(redis_server, prefix)


@contextmanager
def new_own_home(name: str, servers: Servers) -> Iterator[OwnHome]:
    """Yield an empty store on a new server of this name; the server persists acknowledged writes."""
    if name in cluster.names():
        with servers.alone(name) as server, closing(PostgresHome(Schema(server.url, "tenure"))) as postgres:
            yield OwnHome(postgres, server)
    else:
        with servers.own_redis(name, DURABLE) as own, closing(RedisHome(Prefix(own.url, "tenure"))) as home:
            yield OwnHome(home, own)
