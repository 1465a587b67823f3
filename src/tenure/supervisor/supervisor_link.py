"""The side of a child: what it has from its supervisor."""

import os
from dataclasses import dataclass
from typing import Protocol

from tenure.errors import ConfigurationError
from tenure.signals import Stoppable
from tenure.worker.parent_watch import exit_after_end_of, stop_at_end_of
from tenure.worker.started_jobs import Ledger

VARIABLE = "TENURE_SUPERVISED"
"""The environment variable by which a child finds its ledger and its lifeline: two descriptors of open files."""


class Retirable(Stoppable, Protocol):
    def retire(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervised:
    ledger: Ledger
    """For the worker of this process, and for no other."""
    lifeline: int
    """What ends with the supervisor, whatever ended that. A word on it asks the worker to retire."""

    def end_with_supervisor(self, patience: float) -> None:
        """Have this process outlive its supervisor by no more than so many seconds, whatever it is doing."""
        exit_after_end_of(self.lifeline, patience)

    def watch(self, worker: "Retirable") -> None:
        """Stop the worker when the supervisor is gone, and have it retire when that asks for it."""
        stop_at_end_of(self.lifeline, worker, worker.retire)


def supervised() -> Supervised | None:
    """Return what this process has from its supervisor; None if it has none. To be asked once: it is then forgotten."""
    told = os.environ.pop(VARIABLE, None)
    if told is None:
        return None
    try:
        ledger, lifeline = map(int, told.split(","))
        for each in (ledger, lifeline):
            # The processes that handlers start have no supervisor.
            os.set_inheritable(each, False)
        kept = Ledger(ledger)
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"{VARIABLE} is {told!r}, which no supervisor of this process set; unset it") from exc
    os.close(ledger)
    return Supervised(ledger=kept, lifeline=lifeline)
