"""Claim jobs and table rows, call their handlers, and settle each job by the handler's result."""

from tenure.signals import stopped_by_signals
from tenure.worker.async_worker import AsyncWorker
from tenure.worker.summary import Summary
from tenure.worker.work import work
from tenure.worker.worker import Worker

__all__ = ["AsyncWorker", "Summary", "Worker", "stopped_by_signals", "work"]
