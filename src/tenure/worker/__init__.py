"""Runs tasks: claims their jobs, calls them, settles by how they ended."""

from tenure.worker.async_worker import AsyncWorker
from tenure.worker.signals import stopped_by_signals
from tenure.worker.summary import Summary
from tenure.worker.worker import Worker

__all__ = ["AsyncWorker", "Summary", "Worker", "stopped_by_signals"]
