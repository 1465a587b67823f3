"""One worker for everything that is to be worked for."""

from typing import Any, Unpack

from tenure.client.aio.source import AsyncSource
from tenure.client.source import Source
from tenure.client.worker_options import WorkerOptions
from tenure.signals import stopped_by_signals
from tenure.worker.summary import Summary
from tenure.worker.worker import Worker


def work(*sources: Source[Any, Any] | AsyncSource[Any], **options: Unpack[WorkerOptions]) -> Summary:
    """Run the tasks of `Jobs` and the rows of tables until a signal; return what was done.

    The options are those of `Jobs.work`; `concurrency` is how many run at a time in all. The sources are asked in turn.
    One that does not answer is asked again and again, while the others go on. A table has its own lease; `queues`,
    `types` and `lease` are about jobs.
    """
    worker = Worker(sources, options)
    with stopped_by_signals(worker):
        worker.start()
        worker.join()
    return worker.summary
