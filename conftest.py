"""Fixtures and hooks: the stores that the tests run on, and the examples in the docs."""

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
from tests import inherited_signals
from tests.durations import Durations, pass_on_reason
from tests.pages import pytest_runtest_call  # noqa: F401 - a hook
from tests.servers import cluster, redis
from tests.servers.home import made_home, temporary_files_in
from tests.servers.postgres import OwnServer, Server
from tests.servers.prefixes import Prefixes
from tests.servers.redis import DURABLE, OwnRedis, RedisServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.schemas import Schemas
from tests.servers.servers import Servers, shared_names, shared_redis_clusters, shared_redis_names
from tests.system import poolers
from tests.system.poolers import Poolers, Way
from tests.tables import harnesses
from tests.tiers import CORE, EVERYTHING, RACES, TIER, amount, only_in_all, starts_processes

from tenure.backends.memory import Memory
from tenure.backends.postgres import PostgreSQL
from tenure.backends.protocol import StoreClock
from tenure.backends.redis import Redis
from tenure.backends.sqlite import SQLite
from tenure.testing import ClaimingHarness, Harness

ROOT = Path(__file__).parent
SYSTEM = ROOT / "tests" / "system"
HOME = pytest.StashKey[Path]()
IGNORED = pytest.StashKey[list[int]]()

REDIS = [*shared_redis_names(), *shared_redis_clusters()]
"""The Redis and Valkey stores for tests of all stores."""

CLIENT = ("tests/jobs/", "tests/worker/")
"""Folders whose tests use only the common contract of stores."""

# Before any test imports the modules.
for name in ("building", "machine", "racing"):
    pytest.register_assert_rewrite(f"tenure.testing.conformance.{name}")


def begin_in_a_new_folder(namespace: dict[str, Any]) -> None:
    """Run the examples of a page in an empty folder."""
    namespace["_folder"] = TemporaryDirectory(prefix="tenure-docs-")
    namespace.update(shared_names=shared_names, shared_redis_names=shared_redis_names, uuid4=uuid4)
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


class OwnHarness(Harness):
    """One of tenure's own stores."""

    rounds = RACES
    random_examples = amount(40, 10)


class MemoryHarness(OwnHarness):
    """All handles on a memory store are the same object."""

    # Memory is the reference; tests/model runs more examples against the plain model.
    random_examples = 10
    _store: Memory | None = None

    def open(self, clock: StoreClock | None = None) -> Memory:
        if self._store is None:
            self._store = Memory(clock=clock)
        return self._store

    def clear(self) -> None:
        self._store = None


class SQLiteHarness(OwnHarness):
    """Handles on one file, with separate connections."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="tenure-test-")
        self._opened: list[SQLite] = []
        self._number = 0

    def open(self, clock: StoreClock | None = None) -> SQLite:
        # Durability is tested elsewhere; these tests run many small transactions.
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


class PostgresHarness(OwnHarness):
    """Handles on one schema of a shared server, with separate connections, optionally through a pooler."""

    def __init__(self, server: Server, way: Way, schemas: Schemas) -> None:
        self._server = server
        self._way = way
        self._schemas = schemas
        self._schema = schemas.take(server)
        self._opened: list[PostgreSQL] = []

    def open(self, clock: StoreClock | None = None) -> PostgreSQL:
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


class RedisHarness(OwnHarness):
    """Handles on one prefix of a shared server, with separate connections."""

    def __init__(self, server: RedisServer, prefixes: Prefixes) -> None:
        self._server = server
        self._prefixes = prefixes
        self._prefix = prefixes.take()
        self._opened: list[Redis] = []

    def open(self, clock: StoreClock | None = None) -> Redis:
        self._opened.append(Redis(self._server.url_of(self._prefix), clock=clock))
        return self._opened[-1]

    def clear(self) -> None:
        self.remove()
        self._prefix = self._prefixes.take()

    def remove(self) -> None:
        for each in self._opened:
            each.close()
        self._opened = []
        self._prefixes.give_back(self._server, self._prefix)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--system", action="store_true", help="run the system tier: tests that need programs outside wheels"
    )
    parser.addoption("--durations-file", type=Path, help="write the durations of the tests to this file, slowest first")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the system tier without `--system`."""
    return True if collection_path == SYSTEM and not config.getoption("system") else None


def pytest_configure(config: pytest.Config) -> None:
    shared = getattr(config, "workerinput", None)
    config.stash[IGNORED] = inherited_signals.ignored_or_blocked() if shared is None else shared["ignored"]
    inherited_signals.ignore_here_alone(config.stash[IGNORED])
    config.addinivalue_line("markers", f"{only_in_all.name}: run the test only in ./dev test --all")
    config.addinivalue_line("markers", f"{starts_processes.name}: skip the test in ./dev test core")
    if shared is None:
        if file := config.getoption("durations_file"):
            config.pluginmanager.register(Durations(file))
        blocks = ExitStack()
        config.stash[HOME] = blocks.enter_context(made_home())
        blocks.enter_context(temporary_files_in(config.stash[HOME]))
        config.add_cleanup(blocks.close)


def pytest_itemcollected(item: pytest.Item) -> None:
    pass_on_reason(item)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the home and the ignored signals to a process of pytest-xdist."""
    node.workerinput["home"] = str(node.config.stash[HOME])
    node.workerinput["ignored"] = node.config.stash[IGNORED]


@pytest.fixture(scope="module", autouse=True)
def garbage_of_earlier_modules() -> None:
    """Collect garbage once per module and freeze the rest: `gc.collect` in a test then scans only new objects."""
    gc.collect()
    gc.freeze()


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
    """Each version of PostgreSQL, not shared, on a port, with durable commits."""
    with servers.alone(request.param) as server:
        yield server


@pytest.fixture(params=shared_redis_names())
def redis_server(request: pytest.FixtureRequest, servers: Servers) -> RedisServer:
    """Single Redis and Valkey servers, shared with other tests."""
    return servers.shared_redis(request.param)


@pytest.fixture
def redis_cluster(servers: Servers) -> RedisCluster:
    """A cluster of three masters, shared with other tests."""
    return servers.redis_cluster


@pytest.fixture(params=redis.names())
def own_redis(request: pytest.FixtureRequest, servers: Servers) -> Iterator[OwnRedis]:
    """Redis and Valkey, not shared, on a port, with durable writes."""
    with servers.own_redis(request.param, DURABLE) as server:
        yield server


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of higher tiers."""
    unwanted = [only_in_all.name] * (TIER < EVERYTHING) + [starts_processes.name] * (TIER == CORE)
    left_out = {item for item in items if any(map(item.get_closest_marker, unwanted))}
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with the fixture `harness` on all stores of the tier; in the system tier, on stores behind a pooler."""
    if "harness" in metafunc.fixturenames:
        is_system = metafunc.config.getoption("system")
        stores = poolers.names() if is_system else stores_of(metafunc.definition.nodeid)
        metafunc.parametrize("harness", stores, indirect=True)


def stores_of(test: str) -> list[str]:
    """Return the stores that a test with the fixture `harness` runs on."""
    if TIER == CORE:
        return ["memory"]
    if test.startswith(CLIENT):
        servers = [shared_names()[-1], shared_redis_names()[-1]] if TIER == EVERYTHING else []
        return ["memory", "sqlite", *servers]
    tables = harnesses.names() if "conformance/claiming/" in test else []
    return ["memory", "sqlite", *shared_names(), *REDIS, *tables]


@pytest.fixture(scope="session")
def running_poolers(servers: Servers) -> Iterator[Poolers]:
    with poolers.running_poolers(servers) as running:
        yield running


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Iterator[ClaimingHarness]:
    if request.param == "memory":
        yield MemoryHarness()
        return
    if request.param in harnesses.names():
        with harnesses.made(request.param, request.getfixturevalue("servers")) as table:
            yield table
        return
    harness = harness_of(request)
    yield harness
    harness.remove()


def harness_of(request: pytest.FixtureRequest) -> SQLiteHarness | PostgresHarness | RedisHarness:
    """Return the harness of the requested store; the lazy fixture lookup starts only its server."""
    if request.param == "sqlite":
        return SQLiteHarness()
    if request.param in REDIS:
        servers: Servers = request.getfixturevalue("servers")
        return RedisHarness(servers.shared_redis(request.param), servers.prefixes)
    return postgres_harness(request)


def postgres_harness(request: pytest.FixtureRequest) -> PostgresHarness:
    """Return the harness of a store on PostgreSQL, optionally through a pooler."""
    servers: Servers = request.getfixturevalue("servers")
    if request.param in shared_names():
        server = servers.shared(request.param)
        return PostgresHarness(server, server, servers.schemas)
    running: Poolers = request.getfixturevalue("running_poolers")
    return PostgresHarness(*running.find(request.param), servers.schemas)
