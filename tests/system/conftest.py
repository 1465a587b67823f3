"""Tests that need programs outside wheels; pytest prints the missing programs."""

from collections.abc import Iterator

import pytest

from tests.postgres.conftest import place  # noqa: F401 - a fixture
from tests.servers import pgbouncer
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Server
from tests.servers.servers import Servers

MISSING = [] if pgbouncer.program() else ["pgbouncer"]

collect_ignore = [f"test_{name}.py" for name in MISSING]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name in MISSING:
        terminalreporter.write_line(f"{name} is not installed: skipped the tests that need it")


@pytest.fixture
def pooler(servers: Servers, postgres: Server) -> Iterator[PgBouncer]:
    """PgBouncer in transaction mode, with three server connections."""
    with servers.pgbouncer(postgres) as pooler:
        yield pooler


@pytest.fixture
def any_pooler(pooler: PgBouncer) -> PgBouncer:
    return pooler
