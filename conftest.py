"""The stores that this project's own tests run on, and the examples in the docs."""

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from tests.servers import cluster
from tests.servers.home import made_home
from tests.servers.postgres import OwnServer, Server
from tests.servers.schemas import Schemas
from tests.servers.servers import Servers, shared_names
from tests.system import poolers
from tests.system.poolers import Poolers, Way

from tenure.backends.memory import Memory
from tenure.backends.postgres import PostgreSQL
from tenure.backends.protocol import Clock
from tenure.backends.sqlite import SQLite
from tenure.testing import Harness

ROOT = Path(__file__).parent
SYSTEM = ROOT / "tests" / "system"
HOME = pytest.StashKey[Path]()

# Before any test imports them, from wherever.
for name in ("building", "machine", "racing"):
    pytest.register_assert_rewrite(f"tenure.testing.conformance.{name}")


def begin_in_a_new_folder(namespace: dict[str, Any]) -> None:
    """Let the examples of a page make their files where nothing else is."""
    namespace["_folder"] = TemporaryDirectory(prefix="tenure-docs-")
    namespace.update(shared_names=shared_names, uuid4=uuid4)
    os.environ.pop("TENURE_URL", None)
    os.chdir(namespace["_folder"].name)


def leave_the_folder(namespace: dict[str, Any]) -> None:
    os.chdir(ROOT)
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["*.md"],
    setup=begin_in_a_new_folder,
    teardown=leave_the_folder,
    fixtures=["servers"],
).pytest()


class MemoryHarness(Harness):
    """Handles on one store of memory are one and the same object."""

    _store: Memory | None = None

    def open(self, clock: Clock | None = None) -> Memory:
        if self._store is None:
            self._store = Memory(clock=clock)
        return self._store

    def clear(self) -> None:
        self._store = None


class SQLiteHarness(Harness):
    """Handles on one file, each with connections of its own."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="tenure-test-")
        self._opened: list[SQLite] = []
        self._number = 0

    def open(self, clock: Clock | None = None) -> SQLite:
        # What is on disk is tested elsewhere; here are many small transactions.
        path = Path(self._folder.name) / f"{self._number}.db"
        self._opened.append(SQLite(path, clock=clock, synchronous="normal", timeout=30))
        return self._opened[-1]

    def clear(self) -> None:
        self.close()
        self._number += 1

    def close(self) -> None:
        for each in self._opened:
            each.close()
        self._opened = []

    def remove(self) -> None:
        self.close()
        self._folder.cleanup()


class PostgresHarness(Harness):
    """Handles on one schema of a server that others use too, each with connections of its own, maybe by a pooler."""

    def __init__(self, server: Server, way: Way, schemas: Schemas) -> None:
        self._server = server
        self._way = way
        self._schemas = schemas
        self._schema = schemas.take(server)
        self._opened: list[PostgreSQL] = []

    def open(self, clock: Clock | None = None) -> PostgreSQL:
        self._opened.append(PostgreSQL(self._way.url_of(self._schema), clock=clock))
        return self._opened[-1]

    def clear(self) -> None:
        self.remove()
        self._schema = self._schemas.take(self._server)

    def remove(self) -> None:
        for each in self._opened:
            each.close()
        self._opened = []
        self._schemas.give_back(self._server, self._schema)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--system", action="store_true", help="run the system tier: what needs more than wheels")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the system tier out, unless it is asked for."""
    return True if collection_path == SYSTEM and not config.getoption("system") else None


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        blocks = ExitStack()
        config.stash[HOME] = blocks.enter_context(made_home())
        config.add_cleanup(blocks.close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let a worker of pytest-xdist share the home of the run."""
    node.workerinput["home"] = str(node.config.stash[HOME])


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Iterator[Servers]:
    shared = getattr(pytestconfig, "workerinput", None)
    servers = Servers(Path(shared["home"]) if shared else pytestconfig.stash[HOME])
    yield servers
    servers.close()


@pytest.fixture(params=shared_names())
def postgres(request: pytest.FixtureRequest, servers: Servers) -> Server:
    """Each version of PostgreSQL, shared with other tests."""
    return servers.shared(request.param)


@pytest.fixture(params=cluster.names())
def own_postgres(request: pytest.FixtureRequest, servers: Servers) -> Iterator[OwnServer]:
    """Each version of PostgreSQL, for this test alone, on a port; it keeps what was committed, whatever happens."""
    with servers.alone(request.param) as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the client on the newest PostgreSQL alone: what differs between versions is the store's."""
    older = {f"[{name}" for name in shared_names()[:-1]}
    items[:] = [item for item in items if "tests/jobs/" not in item.nodeid or not any(map(item.nodeid.count, older))]


def pytest_collection_finish() -> None:
    """Have what is there by now looked through no more: it lives to the end, and many tests collect garbage."""
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is for all stores on each of them; in the system tier, on those behind a pooler."""
    if "harness" in metafunc.fixturenames:
        is_system = metafunc.config.getoption("system")
        stores = poolers.names() if is_system else ["memory", "sqlite", *shared_names()]
        metafunc.parametrize("harness", stores, indirect=True)


@pytest.fixture(scope="session")
def running_poolers(servers: Servers) -> Iterator[Poolers]:
    with poolers.running_poolers(servers) as running:
        yield running


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    if request.param == "memory":
        yield MemoryHarness()
        return
    harness = SQLiteHarness() if request.param == "sqlite" else postgres_harness(request)
    yield harness
    harness.remove()


def postgres_harness(request: pytest.FixtureRequest) -> PostgresHarness:
    """Return a store on the server of this name; asked for here, so that none is started for the other stores."""
    servers: Servers = request.getfixturevalue("servers")
    if request.param in shared_names():
        server = servers.shared(request.param)
        return PostgresHarness(server, server, servers.schemas)
    running: Poolers = request.getfixturevalue("running_poolers")
    return PostgresHarness(*running.find(request.param), servers.schemas)
