"""A store of its own for each test, on each version of the server."""

from collections.abc import Iterator

import pytest

from tenure.backends.postgres import PostgreSQL
from tests.postgres.stores import Place, new_place
from tests.servers.postgres import Server


@pytest.fixture
def place(postgres: Server) -> Iterator[Place]:
    """A schema of a server that others use too."""
    with new_place(postgres.url) as place:
        yield place


@pytest.fixture
def store(place: Place) -> Iterator[PostgreSQL]:
    store = place.open()
    yield store
    store.close()
