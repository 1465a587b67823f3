"""The side of a child: what it has from its supervisor."""

import os
from dataclasses import dataclass
from typing import Protocol

from tenure.errors import ConfigurationError
from tenure.signals import Stoppable
from tenure.worker.parent_watch import exit_when_parent_dies, stop_when_parent_dies
from tenure.worker.started_jobs import StartedJobs

VARIABLE = "TENURE_SUPERVISED"
"""The environment variable by which a child finds its ledger and its lifeline: two descriptors of open files."""


class SupervisedWorker(Stoppable, Protocol):
    def quiet(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorLink:
    started_jobs: StartedJobs
    """For the worker of this process, and for no other."""
    parent_pipe: int
    """What ends with the supervisor, whatever ended that. A word on it asks the worker to retire."""

    def exit_with_supervisor(self, delay: float) -> None:
        """Have this process outlive its supervisor by no more than so many seconds, whatever it is doing."""
        exit_when_parent_dies(self.parent_pipe, delay)

    def watch(self, worker: "SupervisedWorker") -> None:
        """Stop the worker when the supervisor is gone, and have it retire when that asks for it."""
        stop_when_parent_dies(self.parent_pipe, worker, worker.quiet)


def take_supervisor_link() -> SupervisorLink | None:
    """Return what this process has from its supervisor; None if it has none. To be asked once: it is then forgotten."""
    value = os.environ.pop(VARIABLE, None)
    if value is None:
        return None
    try:
        shared_file, pipe = map(int, value.split(","))
        for each in (shared_file, pipe):
            # The processes that handlers start have no supervisor.
            os.set_inheritable(each, False)
        started_jobs = StartedJobs(shared_file)
    except (OSError, ValueError) as exc:
        raise ConfigurationError(
            f"{VARIABLE}={value!r} was not set by the supervisor of this process; unset it"
        ) from exc
    os.close(shared_file)
    return SupervisorLink(started_jobs=started_jobs, parent_pipe=pipe)
