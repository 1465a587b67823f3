"""Which slots of a schedule are still to be given out.

A moment is given out once: a slot counts only if it is later than every slot before it.
"""

from collections.abc import Sequence
from datetime import datetime

from tenure.core import checks
from tenure.core.operations import LARGEST_BATCH, Slot


def check_schedule(name: object, slots: Sequence[Slot]) -> str:
    """Return the name of the schedule, or raise for what no store takes."""
    checks.integer("the number of slots", len(slots), 0, LARGEST_BATCH)
    return checks.name("the name of a schedule", name)


def outstanding_slots(slots: Sequence[Slot], last_at: datetime) -> list[Slot]:
    """Return the slots later than the last one, the earliest first; of several at one moment the first given."""
    found: list[Slot] = []
    for slot in sorted(slots, key=lambda slot: slot.at):
        if slot.at > last_at:
            found.append(slot)
            last_at = slot.at
    return found
