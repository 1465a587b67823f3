"""The store returns the same results as the reference store.

A failing run is reported as found. With TENURE_SHRINK=1 it is first shrunk to a minimal example, which takes minutes.
"""

from tenure.backends.memory import Memory
from tenure.backends.protocol import Backend
from tenure.testing import Clock, Harness
from tenure.testing.conformance.machine import compare


def test_random_operations_are_answered_as_by_the_reference(harness: Harness) -> None:
    """Slow: compares random sequences of operations, and shrinks a difference."""

    def open_pair(clock: Clock) -> tuple[Backend, Backend]:
        harness.clear()
        return Memory(clock=clock), harness.open(clock)

    compare(open_pair, examples=harness.random_examples, steps=50)
