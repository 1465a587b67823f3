"""The awaited twins of `Jobs`, `Claim`, `Claims` and `Task`."""

from tenure.aio.tasks import AsyncCall, AsyncTask
from tenure.aio.twins import AsyncClaim, AsyncClaims, AsyncJobs, twin_of

__all__ = ["AsyncCall", "AsyncClaim", "AsyncClaims", "AsyncJobs", "AsyncTask", "twin_of"]
