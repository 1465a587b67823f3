"""Harnesses of users' tables, for the conformance tests of all sources."""

from collections.abc import Iterator
from contextlib import contextmanager

from tenure.testing import ClaimingHarness
from tests.servers.servers import Servers, shared_names
from tests.servers.sessions import by_hand

KINDS = ("table", "sidecar")


def names() -> list[str]:
    """Return the harness names: `table-sqlite`, `sidecar-postgres-18` and so on."""
    return [f"{kind}-{engine}" for engine in ("sqlite", *shared_names()) for kind in KINDS]


@contextmanager
def made(name: str, servers: Servers) -> Iterator[ClaimingHarness]:
    """Yield the harness of a name; remove its table on exit."""
    kind, _, engine = name.partition("-")
    is_sidecar = kind == "sidecar"
    if engine == "sqlite":
        from tests.tables.sqlite_harness import SQLiteTableHarness

        with SQLiteTableHarness(is_sidecar=is_sidecar) as table:
            yield table
        return
    from tests.tables.postgres_harness import PostgresTableHarness

    server = servers.shared(engine)
    with by_hand(server.url) as connection:
        harness = PostgresTableHarness(server, connection, is_sidecar=is_sidecar)
        try:
            yield harness
        finally:
            harness.remove()
