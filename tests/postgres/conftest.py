"""A separate store for each test, on each server version."""

from collections.abc import Iterator

import pytest

from tenure.backends.postgres import PostgreSQL
from tests.postgres.logins import LoggedIn, made_roles
from tests.postgres.stores import Place, new_place
from tests.servers.postgres import Server
from tests.servers.servers import Servers


@pytest.fixture
def place(postgres: Server, servers: Servers) -> Iterator[Place]:
    """A schema on a shared server, with the empty tables of a store."""
    schema = servers.schemas.take(postgres)
    yield Place(postgres.url, schema)
    servers.schemas.give_back(postgres, schema)


@pytest.fixture
def empty_place(postgres: Server) -> Iterator[Place]:
    """The name of a schema that does not exist yet."""
    with new_place(postgres.url) as place:
        yield place


@pytest.fixture
def store(place: Place) -> Iterator[PostgreSQL]:
    store = place.open()
    yield store
    store.close()


@pytest.fixture
def logged_in(place: Place, store: PostgreSQL) -> Iterator[LoggedIn]:
    """The roles of the store, to be granted to login roles."""
    store.migrate()
    with made_roles(place) as log_in:
        yield log_in
