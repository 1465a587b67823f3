"""The stores that this project's own tests run on, and the examples in the docs."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from tenure.backends.memory import Memory
from tenure.backends.protocol import Clock
from tenure.backends.sqlite import SQLite
from tenure.testing import Harness

ROOT = Path(__file__).parent

# Before any test imports them, from wherever.
for name in ("building", "machine", "racing"):
    pytest.register_assert_rewrite(f"tenure.testing.conformance.{name}")


def begin_in_a_new_folder(namespace: dict[str, Any]) -> None:
    """Let the examples of a page make their files where nothing else is."""
    namespace["_folder"] = TemporaryDirectory(prefix="tenure-docs-")
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


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    if request.param == "memory":
        yield MemoryHarness()
        return
    harness = SQLiteHarness()
    yield harness
    harness.remove()
