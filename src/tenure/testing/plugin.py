"""What tenure gives to pytest: fixtures around `Jobs.testing()` and `tenure.testing.claim`.

Loaded in every project that has tenure, so it imports nothing before a fixture is used.
"""

import pkgutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tenure import Jobs
    from tenure.testing import HeldRun, Rehearsal

REMEDY = "say where it is in the settings of pytest, as in `tenure_jobs = app.jobs:jobs`, or define the fixture"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tenure_jobs", "where the tenure.Jobs of this project is, such as app.jobs:jobs")


@pytest.fixture(scope="session")
def tenure_jobs(pytestconfig: pytest.Config) -> "Jobs":
    """The `Jobs` that the setting `tenure_jobs` names. Define a fixture of this name to have another."""
    from tenure import AsyncJobs, Jobs

    name = pytestconfig.getini("tenure_jobs")
    if not name:
        raise pytest.UsageError(f"the fixture tenure_jobs does not know your tenure.Jobs: {REMEDY}")
    try:
        found = pkgutil.resolve_name(name)
    except (AttributeError, ImportError, ValueError) as exc:
        raise pytest.UsageError(f"tenure_jobs = {name} cannot be used: {exc}; {REMEDY}") from exc
    if isinstance(found, AsyncJobs):
        return found.sync
    if not isinstance(found, Jobs):
        raise pytest.UsageError(f"tenure_jobs = {name} is no tenure.Jobs, but {found!r}; {REMEDY}")
    return found


@pytest.fixture
def tenure_queue(tenure_jobs: "Jobs") -> "Iterator[Rehearsal]":
    """The block of `tenure_jobs.testing()`, around one test."""
    with tenure_jobs.testing() as queue:
        yield queue


@pytest.fixture
def tenure_claim() -> "Iterator[Callable[..., HeldRun]]":
    """Make `tenure.current()` a run for the rest of the test; called with what `tenure.testing.claim` takes."""
    from tenure.testing import claim

    with ExitStack() as blocks:

        def enter(*arguments: Any, **options: Any) -> "HeldRun":
            return blocks.enter_context(claim(*arguments, **options))

        yield enter
