"""Select the slots of a schedule that have no job yet.

A slot gets one job: a slot is outstanding only if it is later than the last slot with a job.
"""

from collections.abc import Sequence
from datetime import datetime

from tenure.core import checks
from tenure.core.operations import LARGEST_BATCH, Slot


def check_schedule(name: object, slots: Sequence[Slot]) -> str:
    """Check the name of a schedule and the number of its slots; return the name."""
    checks.integer("the number of slots", len(slots), 0, LARGEST_BATCH)
    return checks.name("the name of a schedule", name)


def outstanding_slots(slots: Sequence[Slot], last_at: datetime) -> list[Slot]:
    """Return the slots after `last_at`, earliest first. Of several slots at the same time, return the first."""
    found: list[Slot] = []
    for slot in sorted(slots, key=lambda slot: slot.at):
        if slot.at > last_at:
            found.append(slot)
            last_at = slot.at
    return found
