"""The conformance suite: every store must pass all of it, including your own.

Write a module with one fixture, `harness`, that returns a `tenure.testing.Harness` for your store:

    # my_harness.py
    import pytest
    from tenure.testing import Harness

    class MyHarness(Harness):
        def open(self, clock=None): ...    # the store, or another handle to it
        def clear(self): ...               # delete all jobs

    @pytest.fixture
    def harness():
        harness = MyHarness()
        yield harness
        ...                                # close connections, remove files

Run the suite outside a checkout of tenure, whose own `harness` fixture would take precedence:

    pip install tenure[testing]
    PYTHONPATH=. pytest --pyargs tenure.testing.conformance -p my_harness

With `pytest-timeout`, a hanging test fails.

`claiming` uses only the operations of `Claiming`, and creates jobs only with `given_jobs`. So it also runs on a user's
table (`--pyargs tenure.testing.conformance.claiming`, with a `ClaimingHarness`). `queueing` uses all operations of
`Backend`, and compares the store with the reference store over random operations.
"""
