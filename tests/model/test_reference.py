"""The memory store, the reference for all stores, compared with a model too simple to have the same bugs."""

from tenure.backends.memory import Memory
from tenure.backends.protocol import Backend
from tenure.testing import Clock
from tenure.testing.conformance.machine import compare
from tests.model.naive import Naive
from tests.tiers import amount


def open_pair(clock: Clock) -> tuple[Backend, Backend]:
    return Naive(clock), Memory(clock=clock)


def test_random_operations_are_answered_as_by_the_plain_model() -> None:
    """Slow: 150 sequences of 50 random operations are compared."""
    compare(open_pair, examples=amount(150, 20), steps=50)
