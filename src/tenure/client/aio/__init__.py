"""Async facades of `Jobs`, `Claim`, `Claims` and `Task`."""

from tenure.client.aio.claims import AsyncClaim, AsyncClaims
from tenure.client.aio.jobs import AsyncJobs, create_facade
from tenure.client.aio.tasks import AsyncCall, AsyncTask
from tenure.client.aio.work import work, worker

__all__ = ["AsyncCall", "AsyncClaim", "AsyncClaims", "AsyncJobs", "AsyncTask", "create_facade", "work", "worker"]
