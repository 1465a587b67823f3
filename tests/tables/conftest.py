"""Fixtures: a SQLite file, or a shop, removed after the test."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tenure.testing import Clock
from tests.servers.servers import Servers, shared_names
from tests.tables.client_shop import Shop, SQLiteShop, shop_on


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="tenure-table-") as folder:
        yield Path(folder) / "app.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", shared_names()[-1]])
def shop(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Shop]:
    """A shop on SQLite and on the newest PostgreSQL."""
    with shop_on(request.param, servers, tmp_path) as shop:
        yield shop


@pytest.fixture
def lite_shop(tmp_path: Path) -> Shop:
    """A shop on SQLite, for tests that do not depend on the engine."""
    return SQLiteShop(tmp_path)
