"""dramatiq on Redis, with the default middleware."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.redis.apps.environment import noting, url

QUEUE = "bench"

broker = RedisBroker(url=url())
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=QUEUE)  # type: ignore[untyped-decorator]  # dramatiq is installed only for benchmarks
def work(n: int, text: str) -> None:  # noqa: ARG001 - the payload has it
    noting()(n)
