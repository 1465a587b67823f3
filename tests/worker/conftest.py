"""Fixtures: a `Jobs` on every store, for tests of workers in the test process."""

import gc
from collections.abc import Iterator

import pytest

import tenure
from tenure.testing import Harness


@pytest.fixture
def jobs(harness: Harness) -> Iterator[tenure.Jobs]:
    with tenure.Jobs(harness.open(), backoff=tenure.Backoff(first=0)) as jobs:
        yield jobs


@pytest.fixture(autouse=True)
def no_error_is_left_behind_on_a_loop(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if asyncio logs an exception that was never retrieved; asyncio logs it when the task is collected."""
    yield
    gc.collect()
    records = [*caplog.get_records("call"), *caplog.records]
    assert [record.message for record in records if record.name == "asyncio"] == []
