"""Stores behind a pooler, for the conformance suite in the system tier. Names have the form SERVER-POOLER."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from tests.postgres.pooler import Pooler
from tests.servers import pgbouncer
from tests.servers.postgres import Server
from tests.servers.servers import Servers, shared_names

OWN, PGBOUNCER = "pooled", "pgbouncer"


class Way(Protocol):
    """A server or a pooler that a store connects to."""

    def url_of(self, schema: str) -> str: ...


def names() -> list[str]:
    """Return the names of the poolers that can be started on the machine."""
    through_pgbouncer = [f"{server}-{PGBOUNCER}" for server in shared_names()] if pgbouncer.program() else []
    return [f"{shared_names()[-1]}-{OWN}", *through_pgbouncer]


class Poolers:
    """The poolers of one test process, started on first use."""

    def __init__(self, servers: Servers, running: ExitStack) -> None:
        self._servers = servers
        self._running = running
        self._ways: dict[str, Way] = {}

    def find(self, name: str) -> tuple[Server, Way]:
        """Return the server and the pooler of a name."""
        server_name, _, kind = name.rpartition("-")
        server = self._servers.shared(server_name)
        if name not in self._ways:
            self._ways[name] = self._running.enter_context(self._pooler(kind, server))
        return server, self._ways[name]

    def _pooler(self, kind: str, server: Server) -> AbstractContextManager[Way]:
        return Pooler(server) if kind == OWN else self._servers.pgbouncer(server)


@contextmanager
def running_poolers(servers: Servers) -> Iterator[Poolers]:
    with ExitStack() as running:
        yield Poolers(servers, running)
