"""CPU time of a server: of its main process and all child processes."""

import os
from pathlib import Path

PROCESSES = Path("/proc")
PARENT, OWN, OF_THE_ENDED = 1, slice(11, 13), slice(13, 15)
"""Positions in the kernel's process statistics; user and system time are in ticks."""


def seconds_of(pid: int) -> float | None:
    """Return the used CPU seconds; None if the kernel does not report them."""
    while (first := _facts(PROCESSES / str(pid))) is not None:
        children = [facts for place in PROCESSES.glob("[0-9]*") if (facts := _facts(place)) and facts[PARENT] == pid]
        # The time of an ended child is added to the parent's: count it exactly once.
        if _facts(PROCESSES / str(pid)) == first:
            ticks = sum(first[OWN]) + sum(first[OF_THE_ENDED]) + sum(sum(each[OWN]) for each in children)
            return ticks / os.sysconf("SC_CLK_TCK")
    return None


def _facts(place: Path) -> list[int] | None:
    try:
        text = (place / "stat").read_text()
    except OSError:
        return None
    # The name is in brackets, and may contain brackets and spaces. The state, a letter, follows the name.
    return [0, *map(int, text.rpartition(")")[2].split()[1:])]
