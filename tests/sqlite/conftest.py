"""A temporary folder for SQLite files."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="tenure-sqlite-") as made:
        yield Path(made)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "tenure.db"
