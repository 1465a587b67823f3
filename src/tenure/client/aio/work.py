"""One worker, on an event loop of the caller's, for everything that is to be worked for."""

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from tenure.client.aio.threads import run_in_new_thread
from tenure.client.worker_options import WorkerOptions

if TYPE_CHECKING:
    from tenure.client.aio.source import AsyncSource
    from tenure.client.source import Source
    from tenure.worker import AsyncWorker, Summary


async def work(*sources: "Source[Any, Any] | AsyncSource[Any]", **options: Unpack[WorkerOptions]) -> "Summary":
    """Run the tasks of `Jobs` and the rows of tables on this event loop until SIGTERM or SIGINT; see `tenure.work`.

    A cancel stops it as a signal does, and is raised when it has ended.
    """
    from tenure.worker import Worker, stopped_by_signals

    # In a thread: it opens the stores.
    worker = await run_in_new_thread(partial(Worker, sources, options))
    with stopped_by_signals(worker):
        return await worker.serve()


def worker(*sources: "Source[Any, Any] | AsyncSource[Any]", **options: Unpack[WorkerOptions]) -> "AsyncWorker":
    """Return a worker for `Jobs` and tables, to be used as an async block on this event loop; see `tenure.work`."""
    from tenure.worker import AsyncWorker

    return AsyncWorker(sources, options)
