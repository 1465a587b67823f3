"""The servers of one test process: those that its tests share, and those that one test has alone.

Each is started when it is first asked for. Processes that share a home share what is dear to make, and no server: so
one that is killed takes nothing from the others.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers import cluster
from tests.servers.home import made_home
from tests.servers.pgbouncer import Mode, PgBouncer
from tests.servers.postgres import FAST, OwnServer, Server, given
from tests.servers.schemas import Schemas

GIVEN = "postgres-given"


def shared_names() -> list[str]:
    """Return the servers that tests can share here."""
    return [GIVEN] if os.environ.get("TEST_POSTGRES_DSN") else cluster.names()


class Servers:
    def __init__(self, home: Path) -> None:
        self._home = home
        self.schemas = Schemas()
        self._shared: dict[str, Server] = {}
        self._running = ExitStack()

    def shared(self, name: str) -> Server:
        """Return the server of this name that all tests of the process share. It is fast, and forgets in a crash."""
        if name not in self._shared:
            self._shared[name] = self._start(name)
        return self._shared[name]

    @contextmanager
    def alone(
        self, name: str, settings: Mapping[str, str] | None = None, *, over_tcp: bool = True
    ) -> Iterator[OwnServer]:
        """Give a server that nobody else uses; on leaving it is gone, whatever was done to it."""
        server = OwnServer(cluster.prepare(name, self._home), self._home, settings, over_tcp=over_tcp)
        try:
            yield server
        finally:
            server.close()

    @contextmanager
    def pgbouncer(self, server: Server, *, mode: Mode = "transaction", sessions: int = 3) -> Iterator[PgBouncer]:
        """Give a PgBouncer before a server, to whom it is installed; on leaving it is gone."""
        bouncer = PgBouncer(server, self._home, mode=mode, sessions=sessions)
        try:
            yield bouncer
        finally:
            bouncer.close()

    def close(self) -> None:
        self._running.close()

    def _start(self, name: str) -> Server:
        if name == GIVEN:
            return given(os.environ["TEST_POSTGRES_DSN"])
        own = self._running.enter_context(self.alone(name, FAST, over_tcp=False))
        return Server(own.url, own.version)


@contextmanager
def running_servers() -> Iterator[Servers]:
    """Give servers to a program that is no test; on leaving they are gone, with all that they had."""
    with made_home() as home:
        servers = Servers(home)
        try:
            yield servers
        finally:
            servers.close()
