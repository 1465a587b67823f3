"""The fixtures, in a separate pytest run."""

import sys

import pytest

from tests.tiers import first_in_all_tiers, only_in_all

pytest_plugins = ["pytester"]

APP = """
import tenure

jobs = tenure.Jobs()
ajobs = jobs.aio

@jobs.task
def send(to):
    return tenure.current().attempt
"""

TESTS = """
import app
import pytest
import tenure

def test_a(tenure_queue, tenure_jobs):
    assert tenure_jobs is app.jobs
    app.send.enqueue("ada")
    tenure_queue.assert_enqueued(app.send, to="ada")
    assert [job.result for job in tenure_queue.drain()] == [1]

def test_b(tenure_queue):
    tenure_queue.assert_nothing_enqueued()

def test_c(tenure_claim):
    run = tenure_claim("send", attempt=3)
    assert tenure.current() is run
    assert app.send("ada") == 3

def test_d():
    with pytest.raises(tenure.NoClaim):
        app.send("ada")
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", *arguments)


@pytest.mark.parametrize("name", first_in_all_tiers(["app:jobs", "app:ajobs"]))
def test_the_fixtures_use_the_jobs_that_a_setting_names(pytester: pytest.Pytester, name: str) -> None:
    pytester.makeini(f"[pytest]\npythonpath = .\ntenure_jobs = {name}")
    pytester.makepyfile(app=APP, test_app=TESTS)

    run(pytester).assert_outcomes(passed=4)


@only_in_all
def test_the_fixtures_use_the_jobs_of_a_conftest(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npythonpath = .")
    pytester.makeconftest("import app, pytest\n@pytest.fixture\ndef tenure_jobs(): return app.jobs")
    pytester.makepyfile(app=APP, test_app=TESTS)

    run(pytester).assert_outcomes(passed=4)


@only_in_all
def test_without_a_usable_setting_the_remedy_is_told(pytester: pytest.Pytester) -> None:
    """Slow: starts pytest once for each setting."""
    pytester.makepyfile(app=APP, test_app="def test(tenure_queue): pass")

    told = {
        setting: run(pytester, "-o", f"tenure_jobs={setting}", "-o", "pythonpath=.").stdout.str()
        for setting in ("", "app:missing", "app:send")
    }

    assert all("define the fixture" in output for output in told.values())
    assert "tenure_jobs is not set" in told[""]
    assert "cannot import tenure_jobs = app:missing: module 'app' has no attribute" in told["app:missing"]
    assert "tenure_jobs = app:send is not a tenure.Jobs but <Task 'send'>" in told["app:send"]


def test_loading_the_plugin_loads_no_more_than_jobs_do(pytester: pytest.Pytester) -> None:
    code = (
        "import sys, tenure; tenure.Jobs; before = set(sys.modules); "
        "import tenure.testing.plugin; print(*set(sys.modules) - before)"
    )
    loaded = pytester.run(sys.executable, "-c", f"import pytest; {code}").stdout.str().split()

    assert [name for name in sorted(loaded) if name.startswith("tenure")] == [
        "tenure.testing",
        "tenure.testing.clock",
        "tenure.testing.harness",
        "tenure.testing.plugin",
    ]
