"""For tests: of code that uses tenure, and of a store that it shall use.

`rehearsal` and `held` are for the first, the suite in `conformance` is for the second.
"""

from typing import TYPE_CHECKING

from tenure.testing.clock import Clock
from tenure.testing.harness import ClaimingHarness, Harness

if TYPE_CHECKING:
    from tenure.testing.standalone_run import HeldRun, claim
    from tenure.testing.testing_queue import AsyncTestQueue, TestQueue
else:

    def __getattr__(name: str) -> object:
        # pytest imports this for its plugin in every project that has tenure, whether it is used or not.
        if name in {"HeldRun", "claim"}:
            from tenure.testing import standalone_run as module
        elif name in {"AsyncTestQueue", "TestQueue"}:
            from tenure.testing import testing_queue as module
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(module, name)


__all__ = ["AsyncTestQueue", "ClaimingHarness", "Clock", "Harness", "HeldRun", "TestQueue", "claim"]
