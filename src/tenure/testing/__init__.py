"""For tests: a clock that can be set, and the suite that every store has to pass."""

from tenure.testing.clock import Clock
from tenure.testing.harness import ClaimingHarness, Harness

__all__ = ["ClaimingHarness", "Clock", "Harness"]
