"""Several worker processes, watched over by one that runs no jobs."""

from tenure.supervisor.ending import Ending, How
from tenure.supervisor.plan import Plan
from tenure.supervisor.reaping import reap_dead, sign_off_dead
from tenure.supervisor.supervised import Supervised, supervised
from tenure.supervisor.supervisor import Supervisor

__all__ = ["Ending", "How", "Plan", "Supervised", "Supervisor", "reap_dead", "sign_off_dead", "supervised"]
