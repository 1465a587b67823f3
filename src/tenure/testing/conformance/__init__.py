"""The suite that every store passes whole, yours as well.

Write a module with one fixture, `harness`, that gives a `tenure.testing.Harness` for a store of your own:

    # my_harness.py
    import pytest
    from tenure.testing import Harness

    class MyHarness(Harness):
        def open(self, clock=None): ...    # the store, or another handle on it
        def clear(self): ...               # make it empty

    @pytest.fixture
    def harness():
        harness = MyHarness()
        yield harness
        ...                                # close what it opened, remove what it made

and run the suite on it, anywhere but in a checkout of tenure, whose own fixture would win:

    pip install tenure[testing]
    PYTHONPATH=. pytest --pyargs tenure.testing.conformance -p my_harness

With `pytest-timeout`, a test that hangs fails.

`claiming` needs only the operations of `Claiming`, and builds its jobs with `given_jobs` alone, so that it runs on a
table of jobs as well (`--pyargs tenure.testing.conformance.claiming`, with a `ClaimingHarness`). `queueing` needs those
of `Backend`, and compares the store with the reference over random operations.
"""
