"""For tests: of code that uses tenure, and of a store that it shall use.

`rehearsal` and `held` are for the first, the suite in `conformance` is for the second.
"""

from typing import TYPE_CHECKING

from tenure.testing.clock import Clock
from tenure.testing.harness import ClaimingHarness, Harness

if TYPE_CHECKING:
    from tenure.testing.held import HeldRun, claim
    from tenure.testing.rehearsal import AsyncRehearsal, Rehearsal
else:

    def __getattr__(name: str) -> object:
        # pytest imports this for its plugin in every project that has tenure, whether it is used or not.
        if name in {"HeldRun", "claim"}:
            from tenure.testing import held as module
        elif name in {"AsyncRehearsal", "Rehearsal"}:
            from tenure.testing import rehearsal as module
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(module, name)


__all__ = ["AsyncRehearsal", "ClaimingHarness", "Clock", "Harness", "HeldRun", "Rehearsal", "claim"]
