"""How long scripts block the server, from the server's slow log, set to record every command."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from benchmarks.redis.server import Server

REMEMBERED = 1_000
"""Entries of the slow log."""
BY_DEFAULT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptTime:
    """One operation: scripts per call, and the longest script of each call in microseconds."""

    operation: str
    scripts: int
    microseconds: list[int]


class Stopwatch:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def time(self, name: str, operation: Callable[..., object], given: Sequence[tuple[Any, ...]]) -> ScriptTime:
        """Call an operation with each of the arguments, and measure its scripts."""
        times = [self._scripts(operation, arguments) for arguments in given]
        # The first call may send a script twice: EVALSHA, then EVAL.
        return ScriptTime(operation=name, scripts=min(map(len, times)), microseconds=[max(each) for each in times])

    def _scripts(self, operation: Callable[..., object], arguments: tuple[Any, ...]) -> list[int]:
        self._client.slowlog_reset()
        operation(*arguments)
        log = self._client.slowlog_get(REMEMBERED)
        return [each["duration"] for each in log if each["command"].startswith(b"EVAL")]


@contextmanager
def stopwatch(server: Server) -> Iterator[Stopwatch]:
    with redis.Redis.from_url(server.url) as client:
        client.config_set("slowlog-max-len", REMEMBERED)
        client.config_set("slowlog-log-slower-than", 0)
        yield Stopwatch(client)
        client.config_set("slowlog-log-slower-than", BY_DEFAULT)
