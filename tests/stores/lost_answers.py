"""A store on each kind of server, behind a proxy that cuts its connections at given points."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self
from urllib.parse import quote

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.backend import CONCURRENT_SETTLE_MINIMUM
from tenure.backends.postgres.pipeline import COMMIT
from tenure.backends.protocol import Backend
from tenure.backends.redis import Redis
from tenure.backends.redis.script import script
from tenure.testing import Clock
from tests import operations
from tests.operations import NOT_REPEATED, Given, Operation, stored
from tests.postgres.proxy import Proxy as PostgresProxy
from tests.postgres.stores import Place as Schema
from tests.postgres.verdict import FAULTS
from tests.postgres.wire import BIND, COMMAND_COMPLETE, DATA_ROW
from tests.proxies.points import Point, after, before, from_client, from_server, within
from tests.proxies.proxy import Proxy
from tests.redis.proxy import Proxy as RedisProxy
from tests.redis.stores import Place as Prefix
from tests.redis.verdict import faults
from tests.redis.wire import TEXT
from tests.servers.prefixes import client_of
from tests.servers.servers import Servers, shared_names, shared_redis_names

ALL = NOT_REPEATED.keys()

SCRIPTS = (
    "enqueue",
    "claim",
    "extend",
    "settle",
    "exchange",
    "reap",
    "purge",
    "move",
    "delete",
    "schedule",
    "pause",
    "resume",
    "beat",
    "wait",
    "find",
)


@dataclass(frozen=True, slots=True)
class CutPoint:
    """Where a connection is cut, and which operations of `NOT_REPEATED` are stored by then."""

    point: Point
    stored: Collection[str] = ()
    needs_result: bool = False
    """It is reached only by operations that return something."""


class ProxiedStore(ABC):
    """An empty store on a server that tests share, and a proxy in front of that server."""

    cuts: ClassVar[Mapping[str, CutPoint]]
    cuts_of_a_wait: ClassVar[Mapping[str, CutPoint]]
    """The same for a handle that waits; its listener reaches none of them, if it has `options_to_wait`."""
    options_to_wait = ""
    lost_answer: ClassVar[Point]
    """The operation is stored, and its answer is lost."""
    held: ClassVar[int]
    """How many jobs are held before an operation is cut off."""
    cut_off: ClassVar[str]
    silent: ClassVar[str]
    does_not_greet: ClassVar[str]
    """What `StoreUnavailable` says of it, as regular expressions; the last two with a timeout of 1.5 s."""

    def __init__(self, servers: Servers, name: str, proxy: Proxy) -> None:
        self._servers = servers
        self._name = name
        self.proxy = proxy

    @classmethod
    @abstractmethod
    def made(cls, servers: Servers, name: str) -> AbstractContextManager[Self]:
        """Yield an empty store on the named server, and delete it afterwards."""

    @abstractmethod
    def open(self, clock: Clock | None) -> Backend:
        """Return a handle whose connections are not cut."""

    @abstractmethod
    def open_through(self, clock: Clock | None, options: str = "") -> Backend:
        """Return a handle through the proxy."""

    @abstractmethod
    def faults(self) -> Mapping[str, object]:
        """Return the inconsistencies of the store."""

    @contextmanager
    def through(self, clock: Clock | None, options: str = "") -> Iterator[Backend]:
        """Yield a handle with an open connection through the proxy."""
        with closing(self.open_through(clock, options)) as store:
            store.stats()
            yield store

    def given(self, store: Backend, clock: Clock) -> Given:
        """Store jobs in every state."""
        return operations.given(store, clock, self.held)

    def undisturbed(self, operation: Operation) -> tuple[object, object]:
        """Return the result of an operation, and the stored jobs afterwards, without a cut."""
        return undisturbed(type(self), self._servers, self._name, operation)


@cache
def undisturbed(kind: type[ProxiedStore], servers: Servers, name: str, operation: Operation) -> tuple[object, object]:
    clock = Clock()
    with kind.made(servers, name) as proxied, closing(proxied.open(clock)) as store:
        answer = operation(store, proxied.given(store, clock))
        return answer, stored(store)


class ProxiedPostgres(ProxiedStore):
    lost_answer = before(from_server("COMMIT", COMMAND_COMPLETE))
    cuts: ClassVar[Mapping[str, CutPoint]] = {
        "in the request": CutPoint(within(from_client(type=BIND), number=2)),
        "before the commit": CutPoint(before(from_client(COMMIT.name.decode(), BIND))),
        "before the answer to the commit": CutPoint(lost_answer, stored=ALL),
        # A reap and a purge are one round trip: their result comes when everything is committed.
        "in a result": CutPoint(within(from_server(type=DATA_ROW)), stored={"reap", "purge"}, needs_result=True),
    }
    cuts_of_a_wait = cuts
    held = CONCURRENT_SETTLE_MINIMUM
    cut_off = "server closed the connection"
    silent = "the server did not respond within 3 s"
    does_not_greet = "timeout expired"

    def __init__(self, servers: Servers, name: str, proxy: PostgresProxy, schema: Schema) -> None:
        super().__init__(servers, name, proxy)
        self.schema = schema
        self._url = proxy.url_of(schema.schema)
        # The listener connects to the server itself: it binds statements as well.
        self.options_to_wait = f"&notify={quote(schema.server, safe='')}"

    @classmethod
    @contextmanager
    def made(cls, servers: Servers, name: str) -> Iterator[Self]:
        server = servers.shared(name)
        schema = servers.schemas.take(server)
        try:
            with PostgresProxy(server) as proxy:
                yield cls(servers, name, proxy, Schema(server.url, schema))
        finally:
            servers.schemas.give_back(server, schema)

    def open(self, clock: Clock | None) -> PostgreSQL:
        return self.schema.open(clock=clock)

    def open_through(self, clock: Clock | None, options: str = "") -> PostgreSQL:
        return PostgreSQL(self._url + options, clock=clock)

    def faults(self) -> Mapping[str, object]:
        numbers = ", ".join(f"({text})" for text in FAULTS.values())
        ((*found,),) = self.schema.execute(f"select {numbers}")
        return {name: number for name, number in zip(FAULTS, found, strict=True) if number}


class ProxiedRedis(ProxiedStore):
    lost_answer = after(from_client(type="EVALSHA"))
    cuts: ClassVar[Mapping[str, CutPoint]] = {
        "before the request": CutPoint(before(from_client(type="EVALSHA"))),
        "in the request": CutPoint(within(from_client(type="EVALSHA"))),
        "before the answer": CutPoint(lost_answer, stored=ALL),
        "in the answer": CutPoint(within(from_server()), stored=ALL),
    }
    cuts_of_a_wait: ClassVar[Mapping[str, CutPoint]] = {
        **cuts,
        # The listener gets responses too. The response to the poll is 0: a job is due.
        "in the answer": CutPoint(within(from_server("$1\r\n0\r\n", TEXT)), stored=ALL),
    }
    held = 3
    cut_off = "cannot reach"
    silent = does_not_greet = r"did not respond within 1\.5 s"

    proxy: RedisProxy

    def __init__(self, servers: Servers, name: str, proxy: RedisProxy, prefix: Prefix) -> None:
        super().__init__(servers, name, proxy)
        self.prefix = prefix
        self._url = proxy.url_of(prefix.prefix)

    @classmethod
    @contextmanager
    def made(cls, servers: Servers, name: str) -> Iterator[Self]:
        """Yield a store on a server that has the scripts loaded, so that an operation is one EVALSHA."""
        server = servers.shared_redis(name)
        prefix = servers.prefixes.take()
        load_scripts(server.url)
        try:
            with RedisProxy(server) as proxy:
                yield cls(servers, name, proxy, Prefix(server.url, prefix))
        finally:
            servers.prefixes.give_back(server, prefix)

    def open(self, clock: Clock | None) -> Redis:
        return self.prefix.open(clock=clock)

    def open_through(self, clock: Clock | None, options: str = "") -> Redis:
        return Redis(self._url + options, clock=clock)

    def faults(self) -> Mapping[str, object]:
        return faults(self.prefix)


def load_scripts(url: str) -> None:
    with client_of(url) as client, client.pipeline() as pipeline:
        for name in SCRIPTS:
            pipeline.script_load(script(name).text)
        pipeline.execute()


KINDS: Mapping[str, type[ProxiedStore]] = {
    **dict.fromkeys(shared_names(), ProxiedPostgres),
    **dict.fromkeys(shared_redis_names(), ProxiedRedis),
}
"""The kind of store that is on the server of this name."""
