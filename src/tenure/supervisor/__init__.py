"""Several worker processes, watched over by one that runs no jobs."""

from tenure.supervisor.config import Plan
from tenure.supervisor.reaping import reap_dead, sign_off_dead
from tenure.supervisor.result import Ending, How
from tenure.supervisor.supervisor import Supervisor
from tenure.supervisor.supervisor_link import Supervised, supervised

__all__ = ["Ending", "How", "Plan", "Supervised", "Supervisor", "reap_dead", "sign_off_dead", "supervised"]
