"""Run several worker processes under a supervisor, which runs no jobs itself."""

from tenure.supervisor.config import SupervisorConfig
from tenure.supervisor.reaping import deregister_dead, reap_dead
from tenure.supervisor.result import ExitReason, SupervisorResult
from tenure.supervisor.supervisor import Supervisor
from tenure.supervisor.supervisor_link import SupervisorLink, take_supervisor_link

__all__ = [
    "ExitReason",
    "Supervisor",
    "SupervisorConfig",
    "SupervisorLink",
    "SupervisorResult",
    "deregister_dead",
    "reap_dead",
    "take_supervisor_link",
]
