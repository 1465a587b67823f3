"""A long random run of the state machine: the memory store against the plain model.

Run with `./dev prove model`; `EXAMPLES=20000 ./dev prove model` for longer.
"""

import os
import time

from tenure.testing.conformance.machine import compare
from tests.model.test_reference import open_pair

EXAMPLES = int(os.environ.get("EXAMPLES", "3000"))
STEPS = 60


def main() -> None:
    started = time.monotonic()
    compare(open_pair, examples=EXAMPLES, steps=STEPS, at_random=True, is_shrunk=True)
    print(f"{EXAMPLES} random runs of up to {STEPS} steps in {time.monotonic() - started:.0f} s: no difference")


if __name__ == "__main__":
    main()
