"""dramatiq's client. There is no bulk enqueue: a group sends its messages one by one."""

import redis

from benchmarks.redis.apps.environment import url
from benchmarks.redis.contract import payload


class DramatiqQueue:
    def __init__(self) -> None:
        from benchmarks.redis.apps import dramatiqs

        self._app = dramatiqs
        self._client = redis.Redis.from_url(url())

    def enqueue(self, jobs: range, at_once: int) -> None:  # noqa: ARG002 - no bulk enqueue
        for n in jobs:
            self._app.work.send(**payload(n))

    def left(self) -> int:
        # This hash contains a message until the acknowledgement.
        return int(self._client.hlen(f"dramatiq:{self._app.QUEUE}.msgs"))

    def close(self) -> None:
        self._client.close()
        self._app.broker.close()
