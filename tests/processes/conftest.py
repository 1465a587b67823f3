"""Fixtures: a stage with its store, and worker processes that are killed after the test."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import tenure
from tests.processes.crew import Crew, crew_on
from tests.processes.grounds import SQLITE, Ground, ground_of
from tests.processes.stage import Stage, stage_on
from tests.servers.servers import Servers, shared_names, shared_redis_names
from tests.tiers import only_in_all

# One version of PostgreSQL and of Redis: tests of the stores cover the differences between versions.
SERVERS = (shared_names()[-1], shared_redis_names()[-1])
STORES = (SQLITE, *(pytest.param(each, marks=only_in_all) for each in SERVERS))


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="tenure-worker-") as made:
        yield Path(made)


@pytest.fixture(params=STORES)
def ground(request: pytest.FixtureRequest, folder: Path, servers: Servers) -> Iterator[Ground]:
    with ground_of(request.param, folder, servers) as ground:
        yield ground


@pytest.fixture
def stage(ground: Ground, folder: Path) -> Stage:
    return stage_on(ground.url, folder)


@pytest.fixture
def jobs(stage: Stage) -> Iterator[tenure.Jobs]:
    with stage.jobs() as jobs:
        yield jobs


@pytest.fixture
def crew(stage: Stage) -> Iterator[Crew]:
    with crew_on(stage) as crew:
        yield crew
