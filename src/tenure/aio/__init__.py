"""The awaited twins of `Jobs`, `Claim` and `Claims`."""

from tenure.aio.twins import AsyncClaim, AsyncClaims, AsyncJobs, twin_of

__all__ = ["AsyncClaim", "AsyncClaims", "AsyncJobs", "twin_of"]
