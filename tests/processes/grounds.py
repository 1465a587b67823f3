"""What a stage stands on: a store, on a file or on a server, that can be judged afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.postgres import stores as schemas
from tests.postgres import verdict as postgres
from tests.redis import stores as prefixes
from tests.redis import verdict as redis
from tests.servers.redis import names as redis_names
from tests.servers.servers import GIVEN_REDIS, REDIS_CLUSTER, Servers
from tests.sqlite import verdict as sqlite

SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class File:
    """A SQLite file, in a folder of its own. Its URL, as any ground's, has an option."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "tenure.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}?synchronous=normal"

    def verdict(self) -> dict[str, Any]:
        """Return what the store says after everything that was done to it, and whether it is whole."""
        found = sqlite.verdict(self.path)
        is_whole = found["integrity"] == "ok" and found["numbers are true"] and not found["unpaired rows"]
        return {**found, "is whole": is_whole}


@dataclass(frozen=True, slots=True)
class Tables:
    """A schema on a PostgreSQL server."""

    place: schemas.Place

    @property
    def url(self) -> str:
        return self.place.url

    def verdict(self) -> dict[str, Any]:
        """Return what the store says after everything that was done to it, and whether it is whole."""
        found = postgres.verdict(self.place)
        return {**found, "is whole": not found["faults"]}


@dataclass(frozen=True, slots=True)
class Keys:
    """A prefix on a Redis server."""

    place: prefixes.Place

    @property
    def url(self) -> str:
        return self.place.url

    def verdict(self) -> dict[str, Any]:
        """Return what the store says after everything that was done to it, and whether it is whole."""
        found = redis.verdict(self.place)
        return {**found, "is whole": not found["faults"]}


Ground = File | Tables | Keys


def is_redis(store: str) -> bool:
    return store in {GIVEN_REDIS, REDIS_CLUSTER, *redis_names()}


@contextmanager
def ground_of(store: str, folder: Path, servers: Servers) -> Iterator[Ground]:
    """Give a new store: `sqlite`, or on a server of this name."""
    if store == SQLITE:
        yield new_file(folder)
        return
    if is_redis(store):
        with prefixes.new_place(servers.shared_redis(store).url) as prefix:
            yield Keys(prefix)
        return
    with schemas.new_place(servers.shared(store).url) as schema:
        yield Tables(schema)


def new_file(folder: Path) -> File:
    file = File(folder / "home")
    file.folder.mkdir()
    return file
