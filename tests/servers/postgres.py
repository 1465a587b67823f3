"""PostgreSQL servers for tests: shared, or owned by a test that stops, kills and restarts the server."""

import ctypes
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

import psycopg

from tests.servers.addresses import LOOPBACK, free_port, must_be_short
from tests.servers.cluster import Cluster
from tests.servers.process import PATIENCE, Process

FAST: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "64MB",
    "max_wal_size": "128MB",
}
"""Settings of servers whose data may be lost in a crash."""

ALWAYS: Mapping[str, str] = {
    "max_connections": "200",
    # With other types, a killed server leaves shared memory outside its data directory.
    "dynamic_shared_memory_type": "mmap",
    # The default of PostgreSQL; the template has a lower value, because its WAL segments are small.
    "max_wal_size": "1GB",
}

IPC_RMID = 0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that tests share; no test stops the server."""

    url: str
    version: int

    def url_of(self, schema: str) -> str:
        """Return the URL of a store in a schema."""
        return with_schema(self.url, schema)


def with_schema(url: str, schema: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


def given(url: str) -> Server:
    """Return a server that is already running."""
    return Server(url, version_at(url))


def version_at(url: str) -> int:
    with psycopg.connect(url, connect_timeout=10) as connection:
        return connection.info.server_version // 10_000


class OwnServer:
    """A server that a test starts and stops, with the given settings and PostgreSQL's defaults.

    The server listens on a socket in its folder; with `over_tcp` also on a loopback port, which is then in the URL.
    Both stay the same after a restart.
    """

    def __init__(
        self, cluster: Cluster, home: Path, settings: Mapping[str, str] | None = None, *, over_tcp: bool = False
    ) -> None:
        self._cluster = cluster
        self._folder = Path(mkdtemp(prefix="s-", dir=home))
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._process: Process | None = None
        self._port = free_port()
        listening = {
            "listen_addresses": LOOPBACK if over_tcp else "",
            "port": str(self._port),
            "unix_socket_directories": str(self._folder),
        }
        self._settings = {**ALWAYS, **(settings or {}), **listening}
        place = f"{LOOPBACK}:{self._port}/postgres" if over_tcp else f"/postgres?host={self._folder}&port={self._port}"
        self.url = f"postgresql://postgres@{place}"
        must_be_short(self._folder / f".s.PGSQL.{self._port}")
        cluster.account.own(self._folder)
        cluster.copy_to(self._data)
        self.start()
        self.version = version_at(self.url)

    def url_of(self, schema: str) -> str:
        """Return the URL of a store in a schema."""
        return with_schema(self.url, schema)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster; None while the server is down."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server on its existing data; return when the server responds."""
        if self._process is not None:
            raise RuntimeError("the server is running; stop or kill it first")
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command: list[str | Path] = [self._cluster.programs / "postgres", "-D", self._data, *settings]
        # On SIGQUIT the server ends immediately and still removes its shared memory; on SIGKILL it could not.
        self._process = Process(command, self._cluster.account, self._log, signal.SIGQUIT)
        ends_at = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.has_ended() or time.monotonic() > ends_at:
                self.stop("immediate")
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log}")
            time.sleep(0.01)

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server with a checkpoint (fast) or without (immediate); committed data is kept in both cases."""
        self._end(signal.SIGINT if mode == "fast" else signal.SIGQUIT)

    def kill(self) -> None:
        """Kill the postmaster; return when its children have ended, as the next start requires."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop the server; remove its files and shared memory."""
        if self._process is not None:
            self.stop("immediate")
        self._remove_shared_memory()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError("the server is down; start it first")
        process, self._process = self._process, None
        process.end(number)

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url, connect_timeout=10).close()
            return True
        return False

    def _remove_shared_memory(self) -> None:
        """Remove the shared memory of a killed server, which the next start would have removed."""
        with suppress(FileNotFoundError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            _, id = lines[6].split()
            ctypes.CDLL(None).shmctl(int(id), IPC_RMID, None)
