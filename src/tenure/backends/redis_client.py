"""Stores given as a Redis client of the caller.

A client is recognised by the name of its class, so that no driver is imported.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from tenure.backends.protocol import Backend
from tenure.core import checks
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from tenure.backends.redis.address import Address

CLIENT_CLASSES = {"redis.client.Redis", "redis.cluster.RedisCluster"}
ASYNC_CLIENT_CLASSES = {"redis.asyncio.client.Redis", "redis.asyncio.cluster.RedisCluster"}


class RedisClient(Protocol):
    """A `redis.Redis` or `redis.RedisCluster`."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


def is_redis_store(store: object) -> TypeGuard["RedisStore | RedisClient"]:
    """Return whether the store is given as a client or a `RedisStore`."""
    return isinstance(store, RedisStore) or is_client(store)


def as_redis_store(store: "RedisStore | RedisClient") -> "RedisStore":
    return store if isinstance(store, RedisStore) else RedisStore(store)


def is_client(store: object) -> TypeGuard[RedisClient]:
    """Return whether the object is a Redis client; raise `ConfigurationError` for an async client."""
    names = {f"{each.__module__}.{each.__qualname__}" for each in type(store).__mro__}
    if names & ASYNC_CLIENT_CLASSES:
        raise ConfigurationError(
            f"{type(store).__module__}.{type(store).__qualname__} is an async client; pass a redis.Redis or a URL: "
            "AsyncJobs takes these as well"
        )
    return bool(names & CLIENT_CLASSES)


@checks.reject_unknown_fields
@dataclass(frozen=True, slots=True)
class RedisStore:
    """The store at the server of a `redis.Redis` or `redis.RedisCluster`, for `Jobs` and `AsyncJobs`.

    The store copies the client's settings and opens its own connections; the caller still closes the client. `prefix`
    names the store: stores with different prefixes do not share jobs. `timeout` is the time in seconds that the server
    has for a response, `connections` the maximum number of open connections.
    """

    client: RedisClient = field(repr=False)
    _: KW_ONLY
    prefix: str = "tenure"
    timeout: float = 10.0
    connections: int = 10

    def __post_init__(self) -> None:
        if not is_client(self.client):
            raise ConfigurationError(
                f"client must be a redis.Redis or a redis.RedisCluster, not {checks.short_repr(self.client)}"
            )
        self._address()

    @property
    def shown(self) -> str:
        """The URL of the store, with the password masked."""
        return self._address().shown

    def open(self) -> Backend:
        from tenure.backends.redis.backend import Redis

        return Redis(self._address())

    def _address(self) -> "Address":
        from tenure.backends.redis.client_address import address_from

        return address_from(self.client, prefix=self.prefix, timeout=self.timeout, connections=self.connections)
