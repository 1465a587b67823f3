"""The store of a stage: a SQLite file, a PostgreSQL schema or a Redis prefix, with a check of its content."""

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
    """A SQLite file in a separate folder. The URL of every ground has a query string, to which options can be added."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "tenure.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}?synchronous=normal"

    def verdict(self) -> dict[str, Any]:
        """Return the counts of the store, and whether the store is consistent."""
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
        """Return the counts of the store, and whether the store is consistent."""
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
        """Return the counts of the store, and whether the store is consistent."""
        found = redis.verdict(self.place)
        return {**found, "is whole": not found["faults"]}


Ground = File | Tables | Keys


def is_redis(store: str) -> bool:
    return store in {GIVEN_REDIS, REDIS_CLUSTER, *redis_names()}


@contextmanager
def ground_of(store: str, folder: Path, servers: Servers) -> Iterator[Ground]:
    """Yield a new store; `store` is `sqlite` or the name of a server."""
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
