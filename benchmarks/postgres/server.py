"""The server of a run: started on a port of the loopback interface, and removed afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.machine import new_folder

SETTINGS = {
    # No checkpoint during a measurement: the benchmark makes one before each run.
    "checkpoint_timeout": "1h",
    "max_wal_size": "8GB",
    # A typical setting for a dedicated server; the default is for the smallest machines.
    "shared_buffers": "512MB",
}
SHOWN = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str
    pid: int
    settings: dict[str, str]
    """Version and settings of the server."""

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """Yield the URL of an empty database, and drop it afterwards."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("create database bench")
            connection.execute("checkpoint")
            yield self.url.removesuffix("/postgres") + "/bench"
            connection.execute("drop database bench with (force)")


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """Run the newest server, with its files in this folder and durable commits."""
    from tests.servers import cluster
    from tests.servers.servers import Servers

    with new_folder(folder) as home:
        # The server's account needs access to its subfolder.
        home.chmod(0o711)
        with Servers(home).alone(cluster.names()[-1], SETTINGS) as own:
            yield Server(url=own.url, pid=own.pid or 0, settings=settings_of(own.url))


def settings_of(url: str) -> dict[str, str]:
    with psycopg.connect(url) as connection:
        return dict(
            connection.execute("select name, current_setting(name) from unnest(%s::text[]) name", [list(SHOWN)])
        )


def vacuum(url: str) -> None:
    """Vacuum the tables, as autovacuum does after a while."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum (analyze)")
