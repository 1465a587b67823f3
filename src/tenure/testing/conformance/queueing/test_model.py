"""The store answers everything as the reference does.

A run that fails is shown as it was found. With TENURE_SHRINK=1 it is first made as short as it can be, which takes
minutes.
"""

from tenure.backends.memory import Memory
from tenure.backends.protocol import Backend
from tenure.testing import Clock, Harness
from tenure.testing.conformance.machine import compare


def test_random_operations_are_answered_as_by_the_reference(harness: Harness) -> None:
    """Takes long: random sequences of operations are compared, and shrunk if they differ."""

    def open_pair(clock: Clock) -> tuple[Backend, Backend]:
        harness.clear()
        return Memory(clock=clock), harness.open(clock)

    compare(open_pair, examples=harness.random_examples, steps=50)
