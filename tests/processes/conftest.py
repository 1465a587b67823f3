"""A stage, the store on it, and a crew that is gone afterwards."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import tenure
from tests.processes.crew import Crew, crew_on
from tests.processes.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with TemporaryDirectory(prefix="tenure-worker-") as made:
        yield Stage(Path(made))


@pytest.fixture
def jobs(stage: Stage) -> Iterator[tenure.Jobs]:
    with stage.jobs() as jobs:
        yield jobs


@pytest.fixture
def crew(stage: Stage) -> Iterator[Crew]:
    with crew_on(stage) as crew:
        yield crew
