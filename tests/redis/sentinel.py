"""A sentinel that monitors one server and returns its address."""

import signal
import time
from pathlib import Path

import redis

from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.process import PATIENCE, Account, Process
from tests.servers.redis import OwnRedis, program_of

SERVICE = "jobs"


class Sentinel:
    def __init__(self, name: str, folder: Path, server: OwnRedis) -> None:
        self.port = free_port()
        configuration = folder / "sentinel.conf"
        configuration.write_text(
            f"port {self.port}\nbind {LOOPBACK}\ndir {folder}\nsentinel monitor {SERVICE} {LOOPBACK} {server.port} 1\n"
        )
        command: list[str | Path] = [program_of(name), configuration, "--sentinel"]
        self._process = Process(command, Account(), folder / "sentinel.log", signal.SIGKILL)
        self._await()

    def close(self) -> None:
        self._process.end(signal.SIGKILL)

    def _await(self) -> None:
        ends_at = time.monotonic() + PATIENCE
        while not self._answers():
            assert time.monotonic() < ends_at, f"the sentinel did not start within {PATIENCE:g} s"
            time.sleep(0.005)

    def _answers(self) -> bool:
        with redis.Redis(host=LOOPBACK, port=self.port) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False
