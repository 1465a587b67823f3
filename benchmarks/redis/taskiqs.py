"""taskiq's client, on a stream or on a list, with uvloop. It has no bulk enqueue."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import redis

from benchmarks.redis.apps.environment import url
from benchmarks.redis.contract import payload

R = TypeVar("R")


class TaskiqQueue:
    """The client; the subclasses count the remaining jobs."""

    def __init__(self, broker: Any, task: Any) -> None:
        import uvloop

        self._broker, self._task = broker, task
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._client: Any = redis.Redis.from_url(url())
        self._run(broker.startup())

    def enqueue(self, jobs: range, at_once: int) -> None:  # noqa: ARG002 - no bulk enqueue
        self._run(self._enqueue(jobs))

    def close(self) -> None:
        self._run(self._broker.shutdown())
        self._runner.close()
        self._client.close()

    async def _enqueue(self, jobs: range) -> None:
        for n in jobs:
            await self._task.kiq(**payload(n))

    def _run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return self._runner.run(coroutine)


class StreamQueue(TaskiqQueue):
    def __init__(self) -> None:
        from benchmarks.redis.apps import taskiqs

        super().__init__(taskiqs.streamed, taskiqs.by_stream)

    def left(self) -> int:
        stream = self._broker.queue_name
        (group,) = self._client.xinfo_groups(stream)
        behind = self._client.xrange(stream, min=b"(" + group["last-delivered-id"])
        return int(group["pending"]) + len(behind)


class ListQueue(TaskiqQueue):
    def __init__(self) -> None:
        from benchmarks.redis.apps import taskiqs

        super().__init__(taskiqs.listed, taskiqs.by_list)

    def left(self) -> int:
        return int(self._client.llen(self._broker.queue_name))
