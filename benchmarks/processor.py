"""The processor's time of a server: of its first process and of all that this one has started."""

import os
from pathlib import Path

PROCESSES = Path("/proc")
PARENT, OWN, OF_THE_ENDED = 1, slice(11, 13), slice(13, 15)
"""Where these stand in what the kernel tells of a process: the last two in ticks, for the user and for the system."""


def seconds_of(pid: int) -> float | None:
    """Return the seconds that it has used; None where the kernel does not tell."""
    while (first := _facts(PROCESSES / str(pid))) is not None:
        children = [facts for place in PROCESSES.glob("[0-9]*") if (facts := _facts(place)) and facts[PARENT] == pid]
        # When a child has ended its time becomes the parent's; it must be counted neither twice nor not at all.
        if _facts(PROCESSES / str(pid)) == first:
            ticks = sum(first[OWN]) + sum(first[OF_THE_ENDED]) + sum(sum(each[OWN]) for each in children)
            return ticks / os.sysconf("SC_CLK_TCK")
    return None


def _facts(place: Path) -> list[int] | None:
    try:
        text = (place / "stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may have brackets and spaces in it; after it comes the state, a letter.
    return [0, *map(int, text.rpartition(")")[2].split()[1:])]
