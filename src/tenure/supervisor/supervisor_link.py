"""Connect a worker process to its supervisor."""

import os
from dataclasses import dataclass
from typing import Protocol

from tenure.errors import ConfigurationError
from tenure.signals import Stoppable
from tenure.worker.parent_watch import exit_when_parent_dies, stop_when_parent_dies
from tenure.worker.started_jobs import StartedJobs

VARIABLE = "TENURE_SUPERVISED"
"""Environment variable with two inherited file descriptors: the record of started jobs, and the parent pipe."""


class SupervisedWorker(Stoppable, Protocol):
    def quiet(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorLink:
    started_jobs: StartedJobs
    """The started jobs of the worker, in memory shared with the supervisor."""
    parent_pipe: int
    """The read end of a pipe that ends when the supervisor dies. A message on it makes the worker quiet."""

    def exit_with_supervisor(self, delay: float) -> None:
        """Exit this process at most `delay` seconds after the supervisor has died."""
        exit_when_parent_dies(self.parent_pipe, delay)

    def watch(self, worker: "SupervisedWorker") -> None:
        """Stop the worker when the supervisor dies, and make it quiet when the supervisor requests that."""
        stop_when_parent_dies(self.parent_pipe, worker, worker.quiet)


def take_supervisor_link() -> SupervisorLink | None:
    """Return the link to the supervisor; None if there is no supervisor. The first call removes the variable."""
    value = os.environ.pop(VARIABLE, None)
    if value is None:
        return None
    try:
        shared_file, pipe = map(int, value.split(","))
        for each in (shared_file, pipe):
            # Processes started by handlers must not inherit the link.
            os.set_inheritable(each, False)
        started_jobs = StartedJobs(shared_file)
    except (OSError, ValueError) as exc:
        raise ConfigurationError(
            f"{VARIABLE}={value!r} was not set by the supervisor of this process; unset it"
        ) from exc
    os.close(shared_file)
    return SupervisorLink(started_jobs=started_jobs, parent_pipe=pipe)
