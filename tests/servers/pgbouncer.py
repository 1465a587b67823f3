"""PgBouncer in front of a PostgreSQL server, if PgBouncer is installed."""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.postgres import Server, with_schema
from tests.servers.process import PATIENCE, Process, unprivileged

SBIN = "/usr/sbin:/usr/local/sbin"
"""Folders of the program that may be missing in PATH."""

CONFIGURATION = """
[databases]
* = {server}

[pgbouncer]
listen_addr = {address}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {sessions}
max_client_conn = 200
"""

Mode = Literal["session", "transaction", "statement"]


def program() -> str | None:
    """Return the path of the program, or None if PgBouncer is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:{SBIN}")


class PgBouncer:
    """A pooler with at most `sessions` server connections; every client is logged in as the user of the server URL."""

    def __init__(self, server: Server, home: Path, *, mode: Mode, sessions: int) -> None:
        found = program()
        if found is None:
            raise RuntimeError("pgbouncer is not installed")
        account = unprivileged()
        self._folder = Path(mkdtemp(prefix="b-", dir=home))
        self._log = self._folder / "log"
        self._port = free_port()
        behind = {name: value for name, value in conninfo_to_dict(server.url).items() if name != "dbname"}
        self._dbname = conninfo_to_dict(server.url)["dbname"]
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(
            CONFIGURATION.format(
                server=" ".join(f"{name}={value}" for name, value in behind.items()),
                address=LOOPBACK,
                port=self._port,
                mode=mode,
                sessions=sessions,
            )
        )
        for each in (self._folder, configuration):
            account.own(each)
        self._process = Process([found, configuration], account, self._log, signal.SIGTERM)
        self._wait()

    @property
    def url(self) -> str:
        """The URL of the server through the pooler."""
        return f"postgresql://postgres@{LOOPBACK}:{self._port}/{self._dbname}"

    def url_of(self, schema: str) -> str:
        """Return the URL of a store in a schema, through the pooler."""
        return with_schema(self.url, schema)

    def close(self) -> None:
        """Stop the process and remove its files."""
        self._process.end(signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        ends_at = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.has_ended() or time.monotonic() > ends_at:
                said = self._log.read_text()
                self.close()
                raise RuntimeError(f"PgBouncer did not start:\n{said}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url, connect_timeout=10).close()
            return True
        return False
