"""Fixtures: a stage with a SQLite file as store."""

from pathlib import Path

import pytest

from tests.processes.conftest import folder, jobs, stage
from tests.processes.grounds import Ground, new_file

__all__ = ["folder", "jobs", "stage"]


@pytest.fixture
def ground(folder: Path) -> Ground:
    return new_file(folder)
