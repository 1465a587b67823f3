"""The stores that this project's own tests run on, and the examples in the docs."""

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from tenure.backends.memory import Memory
from tenure.backends.protocol import Clock
from tenure.testing import Harness

# Before any test imports them, from wherever.
for name in ("building", "machine", "racing"):
    pytest.register_assert_rewrite(f"tenure.testing.conformance.{name}")

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["*.md"]).pytest()


class MemoryHarness(Harness):
    """Handles on one store of memory are one and the same object."""

    _store: Memory | None = None

    def open(self, clock: Clock | None = None) -> Memory:
        if self._store is None:
            self._store = Memory(clock=clock)
        return self._store

    def clear(self) -> None:
        self._store = None


@pytest.fixture(params=[MemoryHarness], ids=["memory"])
def harness(request: pytest.FixtureRequest) -> Harness:
    made: Harness = request.param()
    return made
