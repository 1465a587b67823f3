"""Runs tasks, and the rows of tables: claims them, calls their functions, settles by how these ended."""

from tenure.signals import stopped_by_signals
from tenure.worker.async_worker import AsyncWorker
from tenure.worker.summary import Summary
from tenure.worker.work import work
from tenure.worker.worker import Worker

__all__ = ["AsyncWorker", "Summary", "Worker", "stopped_by_signals", "work"]
