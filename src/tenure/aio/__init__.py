"""The awaited twins of `Jobs`, `Claim`, `Claims` and `Task`."""

from tenure.aio.claims import AsyncClaim, AsyncClaims
from tenure.aio.tasks import AsyncCall, AsyncTask
from tenure.aio.together import work, worker
from tenure.aio.twins import AsyncJobs, twin_of

__all__ = ["AsyncCall", "AsyncClaim", "AsyncClaims", "AsyncJobs", "AsyncTask", "twin_of", "work", "worker"]
