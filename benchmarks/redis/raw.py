"""Minimal Lua that claims and acknowledges, in a bare loop: the cost of Redis and its driver.

One connection acknowledges a batch and claims the next in one script and one round trip. The loop decodes the payload
and records the number. There are no fences, priorities, scheduled jobs or reaping.
"""

import json
import sys
import time
from pathlib import Path

import redis

from benchmarks.contestants.contract import LEASE
from benchmarks.redis.apps.environment import noting, url
from benchmarks.redis.contract import payload

DUE, HELD, PAYLOADS = "due", "held", "payloads"
EXCHANGE = Path(__file__).with_name("exchange.lua").read_text()
PAUSE = 0.01
"""Seconds between two polls while no job is due."""


class RawQueue:
    def __init__(self) -> None:
        self._client = redis.Redis.from_url(url())

    def enqueue(self, jobs: range, at_once: int) -> None:
        for start in range(0, len(jobs), at_once):
            self._enqueue(jobs[start : start + at_once])

    def left(self) -> int:
        return int(self._client.hlen(PAYLOADS))

    def close(self) -> None:
        self._client.close()

    def _enqueue(self, jobs: range) -> None:
        with self._client.pipeline() as pipeline:
            pipeline.hset(PAYLOADS, mapping={str(n): json.dumps(payload(n)) for n in jobs})
            pipeline.zadd(DUE, {str(n): n for n in jobs})
            pipeline.execute()


def work(batch: int) -> None:
    """Run due jobs until the process is stopped."""
    client = redis.Redis.from_url(url())
    exchange, note = client.register_script(EXCHANGE), noting()
    ids: list[bytes] = []
    while True:
        ids, payloads = exchange(keys=[DUE, HELD, PAYLOADS], args=[batch, int(LEASE), *ids])
        for each in payloads:
            note(json.loads(each)["n"])
        if not ids:
            time.sleep(PAUSE)


if __name__ == "__main__":
    work(int(sys.argv[1]))
