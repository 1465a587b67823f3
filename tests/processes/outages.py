"""Outages: ways to make a store unavailable for a while."""

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.postgres import proxy as postgres
from tests.postgres import stores as schemas
from tests.processes.crew import crew_on
from tests.processes.grounds import SQLITE, File, is_redis, new_file
from tests.processes.scenes import is_all_done
from tests.processes.stage import Stage, until
from tests.proxies.proxy import Proxy
from tests.redis import proxy as redis
from tests.redis import stores as prefixes
from tests.servers.postgres import OwnServer
from tests.servers.redis import DURABLE, OwnRedis
from tests.servers.servers import GIVEN_REDIS, REDIS_CLUSTER, Servers


@contextmanager
def locked(file: File) -> Iterator[None]:
    """Lock the file, as another program with an open transaction does."""
    with closing(sqlite3.connect(file.path, isolation_level=None)) as db:
        db.execute("pragma busy_timeout = 60000")
        db.execute("begin exclusive")
        yield


@contextmanager
def moved_away(file: File) -> Iterator[None]:
    """Rename the folder of the file, as if its disk were unmounted."""
    elsewhere = file.folder.rename(file.folder.with_name("elsewhere"))
    yield
    elsewhere.rename(file.folder)


@contextmanager
def cut_off(proxy: Proxy) -> Iterator[None]:
    """Reset all connections, and refuse new connections."""
    with proxy.refusing():
        proxy.cut_all(reset=True)
        yield


@contextmanager
def silent(proxy: Proxy) -> Iterator[None]:
    """Drop all messages in both directions."""
    with proxy.black_hole():
        yield


@contextmanager
def stopped(server: OwnServer | OwnRedis) -> Iterator[None]:
    """Stop the server in order, as for maintenance."""
    server.stop()
    yield
    server.start()


@contextmanager
def killed(server: OwnServer | OwnRedis) -> Iterator[None]:
    """Kill the server; start the server again on the same data."""
    server.kill()
    yield
    server.start()


OF_FILES = {each.__name__: each for each in (locked, moved_away)}
OF_CONNECTIONS = {each.__name__: each for each in (cut_off, silent)}
OF_SERVERS = {each.__name__: each for each in (stopped, killed)}


def outages_of(store: str) -> list[str]:
    """Return the outages that a store supports. None for a cluster: its nodes announce their own addresses."""
    if store == SQLITE:
        return list(OF_FILES)
    if store == REDIS_CLUSTER:
        return []
    return [*OF_CONNECTIONS, *(() if store == GIVEN_REDIS else OF_SERVERS)]


@dataclass(frozen=True, slots=True)
class Fading:
    """A store, and the context manager that makes the store unavailable."""

    url: str
    away: Callable[[], AbstractContextManager[None]]


@contextmanager
def fading(store: str, outage: str, folder: Path, servers: Servers) -> Iterator[Fading]:
    """Yield a new store that supports the outage; `store` is `sqlite` or the name of a server."""
    if outage in OF_FILES:
        file = new_file(folder)
        yield Fading(file.url, partial(OF_FILES[outage], file))
    elif outage in OF_CONNECTIONS:
        with proxied(store, servers) as way:
            yield Fading(way.url, partial(OF_CONNECTIONS[outage], way.proxy))
    else:
        with servers.own_redis(store, DURABLE) if is_redis(store) else servers.alone(store) as own:
            yield Fading(own.url_of("tenure"), partial(OF_SERVERS[outage], own))


@dataclass(frozen=True, slots=True)
class Proxied:
    """A store behind a proxy, with the URL through the proxy and the direct URL."""

    proxy: Proxy
    url: str
    straight: str


@contextmanager
def proxied(store: str, servers: Servers) -> Iterator[Proxied]:
    """Yield a new store on a server, behind a proxy."""
    if is_redis(store):
        redis_server = servers.shared_redis(store)
        with prefixes.new_place(redis_server.url) as prefix, redis.Proxy(redis_server) as redis_proxy:
            yield Proxied(redis_proxy, redis_proxy.url_of(prefix.prefix), prefix.url)
        return
    server = servers.shared(store)
    with schemas.new_place(server.url) as schema, postgres.Proxy(server) as proxy:
        yield Proxied(proxy, proxy.url_of(schema.schema), schema.url)


def sit_out(stage: Stage, away: Callable[[], AbstractContextManager[None]], seconds: float) -> Mapping[str, Any]:
    """Make the store unavailable while a worker runs a job, let the job end, and return what the worker logged."""
    with stage.jobs() as jobs, crew_on(stage) as crew:
        jobs.enqueue("hold", id="before")
        worker = crew.start(timeout=2.0, concurrency=2, lease=90)
        until(lambda: stage.told("began"))
        with away():
            worker.says("store unavailable")
            stage.gate.touch()
            until(lambda: stage.told("ended"))
            time.sleep(seconds)
        back_at = time.monotonic()
        jobs.enqueue("quick", id="after")
        until(lambda: is_all_done(jobs))
        took = time.monotonic() - back_at
        worker.send(signal.SIGTERM)
        code = worker.code()
        attempts = {job.id: job.attempts for job in jobs.find(state="completed")}
    return {
        "went": len(worker.said("store unavailable")),
        "came": len(worker.said("store available again")),
        "errors": worker.said("ERROR"),
        "took": took,
        "code": code,
        "attempts": attempts,
    }
