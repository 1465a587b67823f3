"""The servers of a run: started on ports of the loopback interface, and removed afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from benchmarks.machine import new_folder

FORGETTING: Mapping[str, str] = {"save": '""', "appendonly": "no"}
DURABLE: Mapping[str, str] = {
    "save": '""',
    "appendonly": "yes",
    "appendfsync": "always",
    # No AOF rewrite during a measurement.
    "auto-aof-rewrite-percentage": "0",
}
SHOWN = ("appendonly", "appendfsync", "maxmemory-policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str
    pid: int
    settings: dict[str, str]
    """Version and settings of the server."""

    def empty(self) -> None:
        """Delete all keys and all cached scripts."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()
            client.script_flush()

    def memory(self) -> int:
        """Return the used bytes, without client buffers and AOF buffers."""
        with redis.Redis.from_url(self.url) as client:
            told = client.info("memory")
        return int(told["used_memory"] - told["mem_clients_normal"] - told["mem_aof_buffer"])


@contextmanager
def running(folder: Path, settings: Mapping[str, str] = FORGETTING) -> Iterator[Server]:
    """Run the oldest supported server, with its files in this folder."""
    from tests.servers import redis as servers

    with (
        new_folder(folder) as home,
        closing(servers.OwnRedis(servers.names()[0], home, settings, over_tcp=True)) as own,
    ):
        yield Server(url=own.url, pid=own.pid or 0, settings=settings_of(own.url))


def settings_of(url: str) -> dict[str, str]:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        told = {**client.info("server"), **client.info("memory")}
        settings = {name: client.config_get(name)[name] for name in SHOWN}
    valkey = told.get("valkey_version")
    name = f"Valkey {valkey}" if valkey else f"Redis {told['redis_version']}"
    return {"server": name, **settings, "allocator": told["mem_allocator"]}
