"""taskiq on a stream, whose messages are acknowledged, and on a list, whose messages are gone when they are taken."""

from taskiq_redis import ListQueueBroker, RedisStreamBroker

from benchmarks.redis.apps.environment import noting, url

STREAM, LIST = "bench-stream", "bench-list"

streamed = RedisStreamBroker(url=url(), queue_name=STREAM)
listed = ListQueueBroker(url=url(), queue_name=LIST)


async def work(n: int, text: str) -> None:  # noqa: ARG001 - the payload has it
    noting()(n)


by_stream = streamed.register_task(work, task_name="by_stream")
by_list = listed.register_task(work, task_name="by_list")
