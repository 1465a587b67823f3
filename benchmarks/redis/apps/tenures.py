"""tenure, with an async task and a task that runs in a thread."""

from benchmarks.redis.apps.environment import noting, url
from tenure import Jobs

AWAITED, IN_THREAD = "work", "work_in_thread"

jobs = Jobs(url)


@jobs.task(AWAITED)
async def work(n: int, text: str) -> None:  # noqa: ARG001 - the payload has it
    noting()(n)


@jobs.task(IN_THREAD)
def work_in_thread(n: int, text: str) -> None:  # noqa: ARG001 - the payload has it
    noting()(n)
