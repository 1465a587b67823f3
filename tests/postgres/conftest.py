"""A store of its own for each test, on each version of the server."""

from collections.abc import Iterator

import pytest

from tenure.backends.postgres import PostgreSQL
from tests.postgres.logins import LoggedIn, made_roles
from tests.postgres.stores import Place, new_place
from tests.servers.postgres import Server
from tests.servers.servers import Servers


@pytest.fixture
def place(postgres: Server, servers: Servers) -> Iterator[Place]:
    """A schema of a server that others use too, with the empty tables of a store."""
    schema = servers.schemas.take(postgres)
    yield Place(postgres.url, schema)
    servers.schemas.give_back(postgres, schema)


@pytest.fixture
def empty_place(postgres: Server) -> Iterator[Place]:
    """The name of a schema that is not there yet."""
    with new_place(postgres.url) as place:
        yield place


@pytest.fixture
def store(place: Place) -> Iterator[PostgreSQL]:
    store = place.open()
    yield store
    store.close()


@pytest.fixture
def logged_in(place: Place, store: PostgreSQL) -> Iterator[LoggedIn]:
    """The roles of the store, for somebody to log in with."""
    store.migrate()
    with made_roles(place) as log_in:
        yield log_in
