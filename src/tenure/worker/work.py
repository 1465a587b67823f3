"""Run one worker for several sources."""

from typing import Any, Unpack

from tenure.client.aio.source import AsyncSource
from tenure.client.source import Source
from tenure.client.worker_options import WorkerOptions
from tenure.signals import stopped_by_signals
from tenure.worker.summary import Summary
from tenure.worker.worker import Worker


def work(*sources: Source[Any, Any] | AsyncSource[Any], **options: Unpack[WorkerOptions]) -> Summary:
    """Run the tasks of `Jobs` and the rows of tables until a signal; return a summary of the runs.

    The options are those of `Jobs.work`; `concurrency` limits all sources together. The worker claims from the sources
    in turn. While a source is unavailable, the worker retries it and continues with the others. A table has its own
    lease; `queues`, `types` and `lease` apply to jobs only.
    """
    worker = Worker(sources, options)
    with stopped_by_signals(worker):
        worker.start()
        worker.join()
    return worker.summary
