"""A prefix for a store, and direct access to its keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tenure.backends.protocol import StoreClock
from tenure.backends.redis import Redis
from tests.servers.prefixes import client_of, keys_under, new_prefix, remove
from tests.servers.redis import with_prefix


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix on a server, or in a cluster."""

    server: str
    prefix: str

    @property
    def url(self) -> str:
        return with_prefix(self.server, self.prefix)

    def key(self, name: str) -> str:
        """Return the full name of a key of the store."""
        return f"{{{self.prefix}}}:{name}"

    def keys(self) -> list[str]:
        """Return the existing keys."""
        with client_of(self.server) as client:
            return keys_under(self.prefix, client)

    def open(self, options: str = "", *, clock: StoreClock | None = None) -> Redis:
        """Return a handle on the store; `options` are appended to the URL."""
        return Redis(self.url + options, clock=clock)

    def execute(self, *words: str | float) -> Any:
        """Run a command on the server, and return the response; texts are bytes."""
        with client_of(self.server) as client:
            return client.execute_command(*words)  # type: ignore[no-untyped-call]


@contextmanager
def new_place(server: str) -> Iterator[Place]:
    place = Place(server, new_prefix())
    try:
        yield place
    finally:
        with client_of(server) as client:
            remove(place.prefix, client)
