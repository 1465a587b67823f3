"""Run one worker for several sources on the caller's event loop."""

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

    A cancel stops the worker as a signal does; `CancelledError` is raised when the worker has ended.
    """
    from tenure.worker import Worker, stopped_by_signals

    # In a thread: the constructor opens the stores, which blocks.
    worker = await run_in_new_thread(partial(Worker, sources, options))
    with stopped_by_signals(worker):
        return await worker.serve()


def worker(*sources: "Source[Any, Any] | AsyncSource[Any]", **options: Unpack[WorkerOptions]) -> "AsyncWorker":
    """Return a worker for `Jobs` and tables. As an async context manager it runs on this event loop."""
    from tenure.worker import AsyncWorker

    return AsyncWorker(sources, options)
