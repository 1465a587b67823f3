"""A stage, and the store on it: a file."""

from pathlib import Path

import pytest

from tests.processes.conftest import folder, jobs, stage
from tests.processes.grounds import Ground, new_file

__all__ = ["folder", "jobs", "stage"]


@pytest.fixture
def ground(folder: Path) -> Ground:
    return new_file(folder)
