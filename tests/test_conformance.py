"""Users can run the conformance suite on their own store, as its instructions say."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure.testing
from tests.tiers import only_in_all

HARNESS = """
import pytest
from tenure.backends.memory import Memory
from tenure.testing import Harness

class MyStore(Memory):
{body}

class MyHarness(Harness):
    store = None

    def open(self, clock=None):
        self.store = self.store or MyStore(clock=clock)
        return self.store

    def clear(self):
        self.store = None

@pytest.fixture
def harness():
    return MyHarness()
"""

WITHOUT_A_FENCE = """
    def _settle(self, settlement, now):
        record = self._index.records.get(settlement.hold.id)
        if record is not None and record.state == "running":
            hold = type(settlement.hold)(id=settlement.hold.id, fence=record.fence, token=record.token)
            settlement = type(settlement)(**{
                name: getattr(settlement, name) for name in settlement.__slots__ if name != "hold"
            }, hold=hold)
        return super()._settle(settlement, now)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is removed after the test; pytest keeps `tmp_path` of several runs."""
    with tempfile.TemporaryDirectory(prefix="tenure-suite-") as made:
        yield Path(made)


def run_suite(folder: Path, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "my_harness.py").write_text(HARNESS.format(body=body))
    # A user's pytest does not load the conftest.py of this checkout, which would run each test once per store of ours.
    cut = ["--confcutdir", str(Path(tenure.testing.__file__).parent)]
    suite = ["--pyargs", "tenure.testing.conformance", "-p", "my_harness"]
    command = [sys.executable, "-m", "pytest", *cut, *suite, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@only_in_all
def test_a_store_of_ones_own_passes_the_whole_suite(folder: Path) -> None:
    """Slow: the whole conformance suite runs in another process."""
    ran = run_suite(folder, "    pass", "-q", "-p", "no:cacheprovider")

    assert ran.returncode == 0, ran.stdout
    assert "skipped" not in ran.stdout
    assert "xfailed" not in ran.stdout


@only_in_all
def test_a_store_that_does_not_fence_does_not_pass(folder: Path) -> None:
    """Slow: a part of the conformance suite runs in another process."""
    ran = run_suite(folder, WITHOUT_A_FENCE, "-q", "-p", "no:cacheprovider", "-k", "test_fence")

    assert ran.returncode == 1
    assert "test_a_worker_that_was_taken_over_cannot_settle" in ran.stdout
