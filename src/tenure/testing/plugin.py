"""The pytest plugin: fixtures around `Jobs.testing()` and `tenure.testing.claim`.

pytest loads the plugin in every project that has tenure installed, so tenure is imported only when a fixture is used.
"""

import pkgutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tenure import Jobs
    from tenure.testing import HeldRun, TestQueue

REMEDY = "set it in the pytest configuration, for example `tenure_jobs = app.jobs:jobs`, or define the fixture"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tenure_jobs", "the tenure.Jobs of this project, for example app.jobs:jobs")


@pytest.fixture(scope="session")
def tenure_jobs(pytestconfig: pytest.Config) -> "Jobs":
    """The `Jobs` that the setting `tenure_jobs` names. Override the fixture to use a different `Jobs`."""
    from tenure import AsyncJobs, Jobs

    name = pytestconfig.getini("tenure_jobs")
    if not name:
        raise pytest.UsageError(f"tenure_jobs is not set: {REMEDY}")
    try:
        found = pkgutil.resolve_name(name)
    except (AttributeError, ImportError, ValueError) as exc:
        raise pytest.UsageError(f"cannot import tenure_jobs = {name}: {exc}; {REMEDY}") from exc
    if isinstance(found, AsyncJobs):
        return found.sync
    if not isinstance(found, Jobs):
        raise pytest.UsageError(f"tenure_jobs = {name} is not a tenure.Jobs but {found!r}; {REMEDY}")
    return found


@pytest.fixture
def tenure_queue(tenure_jobs: "Jobs") -> "Iterator[TestQueue]":
    """The `TestQueue` of `tenure_jobs.testing()`, for one test."""
    with tenure_jobs.testing() as queue:
        yield queue


@pytest.fixture
def tenure_claim() -> "Iterator[Callable[..., HeldRun]]":
    """A function with the arguments of `tenure.testing.claim`; it sets `tenure.current()` for the rest of the test."""
    from tenure.testing import claim

    with ExitStack() as blocks:

        def enter(*arguments: Any, **options: Any) -> "HeldRun":
            return blocks.enter_context(claim(*arguments, **options))

        yield enter
