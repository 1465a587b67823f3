"""The store on a Redis or Valkey server."""

from tenure.backends.redis.backend import Redis

__all__ = ["Redis"]
