"""taskiq on a stream, with acknowledgements, and on a list, which deletes a message when it is taken."""

from taskiq_redis import ListQueueBroker, RedisStreamBroker

from benchmarks.redis.apps.environment import noting, url

STREAM, LIST = "bench-stream", "bench-list"

streamed = RedisStreamBroker(url=url(), queue_name=STREAM)
listed = ListQueueBroker(url=url(), queue_name=LIST)


async def work(n: int, text: str) -> None:  # noqa: ARG001 - the payload has it
    noting()(n)


by_stream = streamed.register_task(work, task_name="by_stream")
by_list = listed.register_task(work, task_name="by_list")
