"""Helpers for tests.

`testing_queue` and `standalone_run` test code that uses tenure; the suite in `conformance` tests a store.
"""

from typing import TYPE_CHECKING

from tenure.testing.clock import Clock
from tenure.testing.harness import ClaimingHarness, Harness

if TYPE_CHECKING:
    from tenure.testing.standalone_run import HeldRun, claim
    from tenure.testing.testing_queue import AsyncTestQueue, TestQueue
else:

    def __getattr__(name: str) -> object:
        # Lazy: pytest imports this package for the plugin in every project that has tenure installed.
        if name in {"HeldRun", "claim"}:
            from tenure.testing import standalone_run as module
        elif name in {"AsyncTestQueue", "TestQueue"}:
            from tenure.testing import testing_queue as module
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(module, name)


__all__ = ["AsyncTestQueue", "ClaimingHarness", "Clock", "Harness", "HeldRun", "TestQueue", "claim"]
