"""Report the status of a worker to its supervisor.

Runs in its own thread, which never blocks on the worker or the store.
"""

from collections.abc import Callable

from tenure.worker.started_jobs import StartedJobs
from tenure.worker.status import WorkerStatus
from tenure.worker.wakeup import Wakeup

REPORT_INTERVAL = 0.5


class StatusReporter:
    def __init__(self, started_jobs: StartedJobs, status: Callable[[], WorkerStatus]) -> None:
        self._started_jobs = started_jobs
        self._status = status
        self._wakeup = Wakeup()
        self._is_closing = False

    def run(self) -> None:
        """Report until `close`, and once more: the last report has the final summary."""
        while True:
            is_last = self._is_closing
            self._started_jobs.write_status(self._status())
            if is_last:
                return
            self._wakeup.wait(REPORT_INTERVAL)

    def report_now(self) -> None:
        """Report at once."""
        self._wakeup.set()

    def close(self) -> None:
        self._is_closing = True
        self._wakeup.set()
